-- Turns, leases, grants, sessions, their ledgers, deliveries, and the record of every decision.

-- One piece of agent work. The lease is part of the row: one worker at a time, fenced by a number
-- that only grows.
create table earshot.turns (
  org_id bigint not null references earshot.organizations,
  id uuid not null,
  persona_id bigint not null,
  destination_id bigint not null,
  requester_id bigint not null,
  trigger text not null check (trigger in ('thread', 'mention', 'schedule')),
  trigger_seq bigint,
  tools text[] not null,
  thread_key earshot.external_id not null,
  state text not null default 'open'
    check (state in ('open', 'running', 'completed', 'stopped', 'failed', 'expired')),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  -- The caller that opened it, its idempotency key, and the digest of what it asked for.
  client_id earshot.external_id not null,
  idempotency_key text collate "C" not null,
  request_digest bytea not null,
  lease_id uuid,
  lease_owner text,
  lease_fence bigint not null default 0,
  lease_expires_at timestamptz,
  -- What the first grant was bound to. Another audience, mode or bound takes another turn.
  audience_hash bytea,
  mode text,
  project_bound bigint,
  -- What it was shown that is for some readers only: they alone may have what it makes. Null: nothing was.
  only_for text[],
  primary key (org_id, id),
  unique (org_id, client_id, idempotency_key),
  foreign key (org_id, persona_id) references earshot.personas,
  foreign key (org_id, destination_id) references earshot.conversations,
  foreign key (org_id, requester_id) references earshot.users,
  check ((trigger = 'schedule') = (trigger_seq is null))
);

create table earshot.session_epochs (
  org_id bigint not null,
  conversation_id bigint not null,
  persona_id bigint not null,
  thread_key earshot.external_id not null,
  epoch bigint not null default 1,
  primary key (org_id, conversation_id, persona_id, thread_key),
  foreign key (org_id, conversation_id) references earshot.conversations,
  foreign key (org_id, persona_id) references earshot.personas
);

create table earshot.sessions (
  org_id bigint not null,
  id uuid not null,
  conversation_id bigint not null,
  persona_id bigint not null,
  thread_key earshot.external_id not null,
  epoch bigint not null,
  audience_hash bytea not null check (octet_length(audience_hash) = 32),
  policy_revision bigint not null,
  state text not null default 'open' check (state in ('open', 'quarantined', 'closed')),
  created_at timestamptz not null default clock_timestamp(),
  -- A fork is a session of its own beside the one it came from: the same audience, another log and ledger. The root
  -- is where the forks began; itself for one that is no fork.
  root_id uuid not null,
  parent_id uuid,
  fork_name earshot.external_id,
  primary key (org_id, id),
  foreign key (org_id, conversation_id) references earshot.conversations,
  foreign key (org_id, persona_id) references earshot.personas,
  foreign key (org_id, root_id) references earshot.sessions,
  foreign key (org_id, parent_id) references earshot.sessions,
  check ((parent_id is null) = (fork_name is null) and (parent_id is null) = (root_id = id))
);
create index sessions_by_root on earshot.sessions (org_id, root_id);
create unique index sessions_by_fork on earshot.sessions (org_id, parent_id, fork_name) where parent_id is not null;

-- The forks that a turn worked in, beside the sessions of its grants.
create table earshot.turn_forks (
  org_id bigint not null,
  turn_id uuid not null,
  session_id uuid not null,
  primary key (org_id, turn_id, session_id),
  foreign key (org_id, turn_id) references earshot.turns,
  foreign key (org_id, session_id) references earshot.sessions
);

create table earshot.grants (
  org_id bigint not null,
  id uuid not null,
  -- SHA-256 of the token's jti. Knowing it is knowing the grant; the runtime cannot list it.
  digest bytea not null unique check (octet_length(digest) = 32),
  turn_id uuid not null,
  lease_id uuid not null,
  lease_owner text not null,
  lease_fence bigint not null,
  session_id uuid not null,
  audience_hash bytea not null check (octet_length(audience_hash) = 32),
  -- Who the audience was, to say what changed.
  readers jsonb not null,
  mode text not null,
  project_bound bigint,
  policy_revision bigint not null,
  issued_at timestamptz not null,
  expires_at timestamptz not null,
  -- The normal end: a newer grant of the same turn took its place.
  ended_at timestamptz,
  -- Revoked for good, and why.
  revoked_at timestamptz,
  revoked_code text,
  primary key (org_id, id),
  foreign key (org_id, turn_id) references earshot.turns,
  foreign key (org_id, session_id) references earshot.sessions
);
create index grants_by_turn on earshot.grants (org_id, turn_id);
-- Minting ends the turn's earlier grants; two at once would be two answers to one turn.
create unique index grants_once_at_a_time on earshot.grants (org_id, turn_id) where ended_at is null;

-- The ledger and the lineage are written many rows at a time, each beside the session, the delivery and the
-- messages that it speaks of, in one transaction. No role deletes any of those, so no foreign key is
-- asked for each row: for fifty sources that costs as much as everything else of a proposal.

-- What a session has been shown. `to_seq` null: the conversation from `from_seq` up, checked for
-- readability; otherwise one message at one revision, checked for change as well.
create table earshot.ledger_entries (
  org_id bigint not null,
  session_id uuid not null,
  conversation_id bigint not null,
  from_seq bigint not null,
  to_seq bigint,
  revision bigint,
  decision_id uuid not null,
  check ((to_seq is null) = (revision is null))
);
create unique index ledger_entries_once on earshot.ledger_entries
  (org_id, session_id, conversation_id, from_seq, coalesce(revision, 0));

create table earshot.deliveries (
  org_id bigint not null,
  id uuid not null,
  turn_id uuid not null,
  grant_id uuid not null,
  destination_id bigint not null,
  status text not null check (status in ('held', 'waiting', 'scheduled', 'cleared', 'claimed', 'released', 'reconciling',
    'delivered', 'failed', 'dead', 'discarded')),
  code text,
  -- For workers that claim: it is released through a claim alone. It may wait longer than others.
  queued boolean not null default false,
  -- Until then nobody may claim it: the moment that was asked for, or that of the next try.
  not_before timestamptz,
  -- A worker's claim. The fence only grows: whoever names an older one lost the claim.
  fence bigint not null default 0,
  claimed_by earshot.external_id,
  lease_expires_at timestamptz,
  attempts integer not null default 0,
  -- Why it was not delivered, in the endpoint's words.
  reason text,
  -- Whether a person has to approve it; who did, and of what.
  needs_approval boolean not null default false,
  approved_by text check (approved_by in ('operator', 'requester', 'owner')),
  approver earshot.external_id,
  approved_at timestamptz,
  approved_sha256 bytea,
  approved_destination bigint,
  approved_audience bytea,
  -- The delivery that became the message which this one edits.
  edits uuid,
  payload bytea,
  payload_sha256 bytea not null check (octet_length(payload_sha256) = 32),
  content_type text not null,
  audience_hash bytea,
  mode text,
  project_bound bigint,
  policy_revision bigint,
  idempotency_key text collate "C" not null,
  request_digest bytea not null,
  proposed_at timestamptz not null,
  -- Until when it may be released.
  expires_at timestamptz not null,
  released_at timestamptz,
  -- A release that nobody has acknowledged by then may have been sent: it is reconciling.
  acknowledge_by timestamptz,
  acknowledged_at timestamptz,
  -- The message it became, as the endpoint reported it.
  message_id earshot.external_id,
  primary key (org_id, id),
  unique (org_id, turn_id, idempotency_key),
  foreign key (org_id, turn_id) references earshot.turns,
  foreign key (org_id, grant_id) references earshot.grants,
  foreign key (org_id, destination_id) references earshot.conversations,
  foreign key (org_id, edits) references earshot.deliveries,
  check (status in ('held', 'discarded') or audience_hash is not null),
  check (queued or status not in ('waiting', 'scheduled', 'claimed', 'dead')),
  check (status <> 'claimed' or lease_expires_at is not null),
  check (payload is null or status not in ('held', 'delivered', 'failed', 'dead', 'discarded'))
);
-- A message came out of one delivery, beside those that edited it. A second one that claims it adds its sources
-- and is refused.
create unique index deliveries_once_by_message on earshot.deliveries (org_id, destination_id, message_id)
  where message_id is not null and edits is null;
create index deliveries_by_message on earshot.deliveries (org_id, destination_id, message_id)
  where message_id is not null;
create index deliveries_to_claim on earshot.deliveries (org_id, (coalesce(not_before, proposed_at)), id)
  where queued and status in ('cleared', 'scheduled', 'claimed');
create index deliveries_by_expiry on earshot.deliveries (org_id, expires_at)
  where status in ('cleared', 'scheduled', 'waiting', 'claimed') or payload is not null;
create index deliveries_by_lease on earshot.deliveries (org_id, lease_expires_at) where status = 'claimed';
create index deliveries_unacknowledged on earshot.deliveries (org_id, acknowledge_by) where status = 'released';
create index deliveries_by_status on earshot.deliveries (org_id, status, proposed_at, id);

-- What may become of a delivery. Each begins as `proposed`, and none stays it.
create table earshot.delivery_transitions (
  from_status text not null,
  to_status text not null,
  primary key (from_status, to_status)
);
insert into earshot.delivery_transitions (from_status, to_status)
select f.status, unnest(f.next) from (values
  ('proposed', array['cleared', 'held', 'waiting', 'scheduled']),
  ('waiting', array['cleared', 'scheduled', 'held', 'discarded']),
  ('scheduled', array['claimed', 'cleared', 'held', 'dead', 'discarded']),
  ('cleared', array['claimed', 'released', 'held', 'waiting', 'discarded']),
  ('claimed', array['claimed', 'released', 'held', 'scheduled', 'dead', 'discarded']),
  ('released', array['delivered', 'failed', 'scheduled', 'dead', 'reconciling']),
  ('reconciling', array['delivered', 'failed', 'scheduled', 'dead']),
  ('held', array['discarded'])) f(status, next);
grant select on earshot.delivery_transitions to earshot_scoped;

-- Every writer keeps to it, raw SQL included: another step is an error of its own (TD001). A change of the fence is a
-- step, also where the status stays.
create function earshot.keep_transitions() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
declare
  was constant text := case when tg_op = 'INSERT' then 'proposed' else old.status end;
begin
  if not exists (select from delivery_transitions x where x.from_status = was and x.to_status = new.status)
    or (tg_op = 'UPDATE' and new.fence < old.fence) then
    raise exception 'a delivery does not go from % to %', was, new.status using errcode = 'TD001';
  end if;
  return new;
end $$;
create trigger transition before insert on earshot.deliveries
  for each row execute function earshot.keep_transitions();
create trigger transition_again before update on earshot.deliveries for each row
  when (old.status is distinct from new.status or old.fence is distinct from new.fence)
  execute function earshot.keep_transitions();
revoke execute on function earshot.keep_transitions() from public;

-- Text that was made from sources and is kept here: a memory, a summary, a draft. Its home is the conversation that it was made
-- for. It has a number there, below zero: so one pair of conversation and sequence names a message or an artifact, in a
-- ledger and in a lineage alike, and no floor admits it where nobody has thought of artifacts. The number is drawn from the
-- id and tells of no other artifact: cursors show it.
create table earshot.artifacts (
  org_id bigint not null,
  conversation_id bigint not null,
  seq bigint not null check (seq < 0),
  id uuid not null,
  kind text not null check (kind in ('memory', 'summary', 'draft', 'note')),
  title text,
  body text not null,
  body_sha256 bytea not null check (octet_length(body_sha256) = 32),
  content_type text not null,
  state text not null default 'live' check (state in ('live', 'deleted')),
  -- Where an ingest caller named the sources. Otherwise the lineage is the ledger of the turn, which nobody chose.
  asserted boolean not null,
  persona_id bigint,
  turn_id uuid,
  created_at timestamptz not null,
  -- The caller, the key of its request and the digest of what it asked for.
  client_id text collate "C" not null,
  idempotency_key text collate "C" not null,
  request_digest bytea not null,
  -- Under which it was saved, for a repetition of the request.
  decision_id uuid,
  terms tsvector not null,
  primary key (org_id, conversation_id, seq),
  unique (org_id, id),
  unique (org_id, client_id, idempotency_key),
  foreign key (org_id, conversation_id) references earshot.conversations,
  foreign key (org_id, persona_id) references earshot.personas,
  foreign key (org_id, turn_id) references earshot.turns,
  check (asserted = (turn_id is null))
);

-- What a derived text, a delivery or an artifact, was made from, flattened: the ledgers of its turn, and the lineage of
-- whatever in them is derived itself. That part is inherited: it has no revision, since it has to be readable and may have been
-- edited since.
create table earshot.lineage (
  org_id bigint not null,
  derived_id uuid not null,
  conversation_id bigint not null,
  from_seq bigint not null,
  to_seq bigint,
  revision bigint
);
create index lineage_by_derived on earshot.lineage (org_id, derived_id);
create index lineage_by_source on earshot.lineage (org_id, conversation_id, from_seq);

alter table earshot.messages add foreign key (org_id, delivery_id) references earshot.deliveries;

-- INVARIANT 17: every decision leaves a record that says why, without the content. Append only.
create table earshot.decisions (
  org_id bigint not null references earshot.organizations,
  id uuid not null,
  decided_at timestamptz not null default clock_timestamp(),
  kind text not null,
  verdict text not null check (verdict in ('allowed', 'refused')),
  code text,
  turn_id uuid,
  grant_id uuid,
  session_id uuid,
  delivery_id uuid,
  tool text,
  -- SHA-256 of the query or of the payload.
  subject_sha256 bytea,
  items integer,
  audience_hash bytea,
  policy_revision bigint,
  -- Kinds of change, counts; never a text.
  detail jsonb,
  primary key (org_id, id)
);
create index decisions_by_time on earshot.decisions (org_id, decided_at);

do $$
declare
  name text;
begin
  foreach name in array array['turns', 'session_epochs', 'sessions', 'turn_forks', 'grants', 'ledger_entries',
    'deliveries', 'artifacts', 'lineage', 'decisions']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert on earshot.%I to earshot_scoped', name);
  end loop;
end $$;

-- A grant is found by the digest that the caller proved; there is no listing under this policy.
create policy by_digest on earshot.grants for select
  using (digest = decode(nullif(current_setting('earshot.grant_digest', true), ''), 'hex'));

grant update on earshot.turns, earshot.session_epochs, earshot.sessions, earshot.grants,
  earshot.deliveries, earshot.artifacts to earshot_scoped;

-- The runtime sees the course of the work, not what was said: no digest, no readers, no payload.
grant select on earshot.turns, earshot.sessions, earshot.session_epochs, earshot.ledger_entries,
  earshot.lineage, earshot.decisions to earshot_runtime;
grant select (org_id, id, turn_id, lease_id, lease_owner, lease_fence, session_id, audience_hash, mode,
    project_bound, policy_revision, issued_at, expires_at, ended_at, revoked_at, revoked_code)
  on earshot.grants to earshot_runtime;
grant select (org_id, conversation_id, seq, id, kind, body_sha256, content_type, state, asserted, persona_id, turn_id, created_at,
    client_id, idempotency_key, request_digest)
  on earshot.artifacts to earshot_runtime;
grant select (org_id, id, turn_id, grant_id, destination_id, status, code, payload_sha256, content_type,
    audience_hash, mode, project_bound, policy_revision, idempotency_key, request_digest, proposed_at,
    expires_at, released_at, acknowledge_by, acknowledged_at, message_id)
  on earshot.deliveries to earshot_runtime;
