import { readFileSync } from 'node:fs';

/** Where a database is and who connects, read from a URL. */
export interface DatabaseAddress {
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** A host name or address, or the absolute path of the directory that holds the server's Unix socket. */
  readonly host: string;
  readonly port: number;
  readonly tls: TlsSetting;
}

/** What the driver is told about TLS: never, when offered, required unverified, or verified. */
type TlsSetting =
  | false
  | 'prefer'
  | 'require'
  | { readonly ca?: string; readonly checkServerIdentity?: () => undefined };

const KNOWN_PARAMETERS = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'sslmode',
  'sslrootcert',
]);

/**
 * Reads a `postgresql://` URL as libpq does, a Unix socket directory in the `host` parameter
 * included (`postgresql://user@/db?host=/run/postgresql&port=5432`). One host only; a parameter
 * that is not understood is an error rather than ignored. Errors never repeat the URL, which
 * may hold a password.
 */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  const url = parse(text);
  for (const name of url.searchParams.keys()) {
    if (!KNOWN_PARAMETERS.has(name))
      throw new Error(`The database URL has a parameter ${name} that is not supported.`);
  }
  const given = (name: string, fromUrl: string) =>
    url.searchParams.get(name) ?? decodeURIComponent(fromUrl);

  const host = given('host', url.hostname).replace(/^\[(.*)\]$/, '$1');
  const user = given('user', url.username);
  const port = Number(given('port', url.port) || '5432');
  if (user === '') throw new Error('The database URL names no user.');
  if (host.includes(','))
    throw new Error('The database URL names several hosts; one is supported.');
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new Error('The database URL has no valid port.');

  return {
    user,
    password: given('password', url.password),
    database: given('dbname', url.pathname.slice(1)) || user,
    host,
    port,
    tls: tlsSetting(host, url.searchParams.get('sslmode'), url.searchParams.get('sslrootcert')),
  };
}

/** The socket a local server listens on, or undefined for a server reached over the network. */
export function socketPath(address: DatabaseAddress): string | undefined {
  return address.host.startsWith('/') ? `${address.host}/.s.PGSQL.${address.port}` : undefined;
}

function parse(text: string): URL {
  // WHATWG URLs need a host where libpq allows none.
  const complete = text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)(?=[:/?#]|$)/, '$1localhost');
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(complete)) {
    throw new Error(
      'The database URL is not of the form postgresql://user:password@host:port/database.',
    );
  }
  return new URL(complete);
}

function tlsSetting(host: string, mode: string | null, rootCertificate: string | null): TlsSetting {
  if (host.startsWith('/')) return false;
  const ca =
    rootCertificate === null || rootCertificate === 'system'
      ? {}
      : { ca: readFileSync(rootCertificate, 'utf8') };
  switch (mode) {
    case 'disable':
      return false;
    case null:
    case 'allow':
    case 'prefer':
      return 'prefer';
    case 'require':
      return 'require';
    case 'verify-ca':
      return { ...ca, checkServerIdentity: () => undefined };
    case 'verify-full':
      return ca;
    default:
      throw new Error('The database URL has an sslmode that PostgreSQL does not know.');
  }
}
