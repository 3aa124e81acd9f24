-- The signing keys of the gateways that keep them here. Each row is sealed with a secret that the database
-- does not have (AES-256-GCM); the name and the purpose are authenticated. Not of one organization.
create table earshot.signing_keys (
  -- The thumbprint of the public part (RFC 7638), which is sealed too: whoever could write a row here could make
  -- no key that is taken.
  kid text collate "C" primary key check (kid ~ '^[A-Za-z0-9_-]{43}$'),
  created_at timestamptz not null,
  -- Published from the beginning; signs from this moment on, until a newer one does.
  signs_from timestamptz not null,
  sealed_key bytea not null,
  sealed_cursor_secret bytea not null
);

-- The gateway reads them. Only the administrator adds and retires.
grant select on earshot.signing_keys to earshot_runtime;
