import { readFile, stat } from 'node:fs/promises';
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  jwtVerify,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { ConfigError } from './config.ts';
import type { IssuerSettings } from './issuer-settings.ts';
import { refreshed } from './refreshed.ts';

/** An issuer of others, trusted for its own `iss`. What it says is what it signed; who that is here is not checked. */
export interface Issuer {
  readonly issuer: string;
  readonly people: IssuerSettings['people'];
  /**
   * Verifies a token of this issuer. Algorithms, audience and type are those of the configuration; of the
   * header only `kid` is read, to choose among the issuer's published keys: a key or an address of
   * one in the token is nothing. `unavailable` if the keys cannot be read now and were not lately.
   */
  verify(token: string): Promise<{ ok: true; claims: JWTPayload & { sub: string } } | Refusal>;
}

export type Issuers = ReadonlyMap<string, Issuer>;

/** So old may the keys of an issuer be before they are read anew. */
export const ISSUER_FRESH_SECONDS = 600;
/** So old may they be while the issuer does not answer. */
export const ISSUER_USABLE_SECONDS = 3600;
/** Between two readings because of an id that nobody knows, and after one that failed. */
export const ISSUER_COOL_DOWN_SECONDS = 30;
const TIMEOUT_MS = 3000;
/** Longer than any token; refused before it is decoded. */
const MAX_TOKEN_CHARACTERS = 8192;

/** Opens the issuers of the configuration. One with a file is read at once, and throws if that is no key set. */
export async function openIssuers(
  settings: readonly IssuerSettings[],
  clockToleranceSeconds: number,
): Promise<Issuers> {
  for (const { file, issuer } of settings) {
    if (file === undefined) continue;
    await readKeyFile(file).catch((error: unknown) => {
      const why = error instanceof ConfigError ? error.message : 'the file holds no key set';
      throw new ConfigError(`issuers: ${issuer}: ${why}`);
    });
  }
  const opened = settings.map((one) => openIssuer(one, clockToleranceSeconds));
  return new Map(opened.map((one) => [one.issuer, one]));
}

/** The `iss` of a token, which is only decoded: it says whom to ask, and nothing more. */
export function claimedIssuer(token: string): string | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined;
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

/** A text that is kept as it is: without what a database refuses or an encoder would repair. */
const SUBJECT = /^[^\0\p{Cs}]{1,500}$/u;

class IssuerUnavailable extends Error {}

function openIssuer(settings: IssuerSettings, clockToleranceSeconds: number): Issuer {
  const { issuer, audience, algorithms, type, people } = settings;
  const keys = keysOf(settings);
  return {
    issuer,
    people,
    async verify(token) {
      try {
        const { payload } = await jwtVerify(token, keys, {
          algorithms,
          issuer,
          audience,
          ...(type !== undefined && { typ: type }),
          requiredClaims: ['exp', 'sub'],
          clockTolerance: clockToleranceSeconds,
        });
        const { sub }: { sub?: unknown } = payload;
        if (typeof sub !== 'string' || !SUBJECT.test(sub)) return refuse('malformed_token');
        return { ok: true, claims: { ...payload, sub } };
      } catch (error) {
        if (error instanceof IssuerUnavailable) {
          return refuse('unavailable', { detail: 'The keys of the issuer cannot be read now.' });
        }
        if (error instanceof errors.JWTExpired) {
          return refuse('malformed_token', { detail: 'The token has expired.' });
        }
        if (error instanceof errors.JOSEError || error instanceof TypeError)
          return refuse('malformed_token');
        throw error;
      }
    },
  };
}

/** Chooses the key of a token, reading the issuer's keys anew where one is not among them. */
function keysOf({ url, file }: IssuerSettings): JWTVerifyGetKey {
  const read = url === undefined ? () => readKeyFile(file ?? '') : readerOf(new URL(url));
  const set = refreshed(
    () =>
      read().catch(() => {
        // What went wrong there is the operator's to see at the issuer; it may quote what it answered.
        throw new IssuerUnavailable();
      }),
    {
      freshSeconds: ISSUER_FRESH_SECONDS,
      usableSeconds: ISSUER_USABLE_SECONDS,
      coolDownSeconds: ISSUER_COOL_DOWN_SECONDS,
      retrySeconds: ISSUER_COOL_DOWN_SECONDS,
    },
  );
  return async (header, token) => {
    try {
      return await keyIn(await set.current(), header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      return keyIn(await set.again(), header, token);
    }
  };
}

/** The key of a token. One that is there and is no key is the issuer's fault, and not the token's. */
async function keyIn(
  set: JWTVerifyGetKey,
  ...[header, token]: Parameters<JWTVerifyGetKey>
): Promise<Awaited<ReturnType<JWTVerifyGetKey>>> {
  try {
    return await set(header, token);
  } catch (error) {
    throw error instanceof errors.JOSEError ? error : new IssuerUnavailable();
  }
}

function readerOf(url: URL): () => Promise<JWTVerifyGetKey> {
  // When to read is decided here and not there: it keeps no set that the issuer has withdrawn for too long.
  const remote = createRemoteJWKSet(url, {
    timeoutDuration: TIMEOUT_MS,
    cacheMaxAge: Number.POSITIVE_INFINITY,
  });
  return async () => {
    await remote.reload();
    return createLocalJWKSet(remote.jwks() ?? { keys: [] });
  };
}

async function readKeyFile(file: string): Promise<JWTVerifyGetKey> {
  const { mode } = await stat(file).catch(() => {
    throw new ConfigError('the file of its keys cannot be read');
  });
  if ((mode & 0o022) !== 0) throw new ConfigError('others may write the file of its keys');
  return createLocalJWKSet(JSON.parse(await readFile(file, 'utf8')) as { keys: [] });
}
