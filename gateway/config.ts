import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { IssuerList } from './issuer-settings.ts';

const whole = (min: number, max: number, otherwise: number) =>
  z.coerce
    .string()
    .regex(/^(0|[1-9][0-9]*)$/, 'must be a whole number in decimal')
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(otherwise);

const postgresUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\//, 'must be a postgresql:// URL')
  .optional();

/** 32 bytes or more that nobody can guess. What looks typed rather than drawn is refused. */
const drawnSecret = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43,}$/, 'must be 32 random bytes or more in base64url')
  .refine(
    (text) => new Set(Buffer.from(text, 'base64url')).size >= 16,
    'must be random: it repeats itself',
  );

const Config = z.strictObject({
  /** The gateway's login. Without it the gateway runs an embedded PostgreSQL in its data folder. */
  databaseUrl: postgresUrl,
  /** The login that migrates. */
  databaseAdminUrl: postgresUrl,
  /** Keys, and the embedded database. */
  dataDir: z
    .string()
    .min(1)
    .default('earshot-data')
    .transform((path) => resolve(path)),
  /** Seals the keys in the database. Without it they are in a file of the data folder. */
  keySecret: drawnSecret.optional(),
  host: z.string().min(1).default('127.0.0.1'),
  port: whole(0, 65535, 8787),
  /** The `iss` of every token of this gateway. */
  issuer: z.string().min(1).max(200).default('earshot'),
  /** Other issuers of callers' tokens. From the file alone. */
  issuers: IssuerList.optional(),
  /** How far two clocks may be apart. */
  clockToleranceSeconds: whole(0, 60, 5),
  grantSeconds: whole(1, 3600, 600),
  leaseSeconds: whole(1, 600, 60),
  turnSeconds: whole(1, 86400, 3600),
  /** How long a cleared delivery may wait for its release. */
  deliverySeconds: whole(1, 86400, 120),
  /** How long a queued delivery may wait in all, for its time, for an approval and for its tries. */
  queueSeconds: whole(1, 2_592_000, 86_400),
  /** After how many claims a queued delivery that keeps failing is dead. */
  deliveryAttempts: whole(1, 100, 5),
  /** How long a released delivery may stay unacknowledged before it is reconciling. */
  acknowledgeSeconds: whole(1, 86400, 60),
  statementTimeoutMs: whole(10, 60000, 5000),
  requestTimeoutMs: whole(10, 120000, 10000),
  maxBodyBytes: whole(1024, 64 * 1024 * 1024, 1024 * 1024),
  /** Requests per second for each caller and each grant, counted by each process. */
  requestsPerSecond: whole(1, 1_000_000, 500),
  poolSize: whole(1, 200, 10),
  /** How many bytes of injected context one source may store in a log in one turn. */
  injectionBytesPerTurn: whole(0, 64 * 1024 * 1024, 256 * 1024),
  /** How many tokens a model counts for one of the estimator's, by model. From the file alone. */
  tokenFactors: z.record(z.string(), z.number().min(0.1).max(10)).optional(),
  /** Whether statements are prepared; a pooler in transaction mode may need `false`. */
  prepareStatements: z
    .union([z.boolean(), z.enum(['true', 'false']).transform((text) => text === 'true')])
    .default(true),
});

/** Everything that can be configured, read once, frozen. */
export type Config = Readonly<z.infer<typeof Config>>;

/** What an environment variable cannot say. */
const FROM_FILE = new Set(['issuers', 'tokenFactors']);

/** A value that stops the start, and names itself. */
export class ConfigError extends Error {}

/**
 * Reads the configuration: the file named by `EARSHOT_CONFIG` (YAML or JSON), then the environment
 * over it (`databaseUrl` is `DATABASE_URL`, `databaseAdminUrl` is `DATABASE_ADMIN_URL`, any other key
 * is `EARSHOT_` and its name in capitals: `grantSeconds` is `EARSHOT_GRANT_SECONDS`). `issuers` and `tokenFactors` are in
 * the file alone.
 *
 * Throws a {@link ConfigError} that names the first bad value, and an unknown `EARSHOT_` variable.
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const values: Record<string, unknown> = fromFile(environment.EARSHOT_CONFIG);
  const keys = Object.keys(Config.shape).filter((key) => !FROM_FILE.has(key));
  const names = new Map(keys.map((key) => [variableOf(key), key]));
  for (const [variable, text] of Object.entries(environment)) {
    const key = names.get(variable);
    if (key !== undefined && text !== undefined) values[key] = text;
    else if (variable.startsWith('EARSHOT_') && variable !== 'EARSHOT_CONFIG') {
      throw new ConfigError(`${variable}: no such setting`);
    }
  }
  const parsed = Config.safeParse(values);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = issue?.path[0]?.toString() ?? issue?.message ?? '';
    const where = issue?.path.map(String).join('.') ?? key;
    const name = FROM_FILE.has(key) ? where : `${variableOf(key)} (${key})`;
    throw new ConfigError(`${name}: ${issue?.message ?? 'is not valid'}`);
  }
  const { issuer, issuers } = parsed.data;
  if (issuers?.some((other) => other.issuer === issuer)) {
    throw new ConfigError("issuers: one has the gateway's own name (EARSHOT_ISSUER)");
  }
  return Object.freeze(parsed.data);
}

function fromFile(path: string | undefined): Record<string, unknown> {
  if (path === undefined) return {};
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    throw new ConfigError(`EARSHOT_CONFIG: the file cannot be read`);
  }
  const parsed = z.record(z.string(), z.unknown()).safeParse(parseYaml(text));
  if (!parsed.success) throw new ConfigError('EARSHOT_CONFIG: the file holds no map of settings');
  return parsed.data;
}

function variableOf(key: string): string {
  const snake = key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
  return snake.startsWith('DATABASE_') ? snake : `EARSHOT_${snake}`;
}
