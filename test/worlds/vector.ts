import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { FingerprintInput } from '../../policy/audience.ts';
import type { Mode } from '../../policy/mode.ts';
import type { Reader } from '../../policy/reader.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { SessionParts } from '../../policy/session-id.ts';

/** The published test vectors under `fixtures/vectors/`, which were computed by neither implementation here. */
export async function fingerprintVectors() {
  const file = z.object({ vectors: z.array(FingerprintVector) });
  return file.parse(await readVectors('fingerprints')).vectors;
}

export async function sessionIdVectors() {
  const file = z.object({ vectors: z.array(SessionIdVector) });
  return file.parse(await readVectors('session-ids')).vectors;
}

export async function forkIdVectors() {
  const fork = z.object({
    title: z.string(),
    parent: z.string(),
    name: z.string(),
    forkId: z.string(),
  });
  return z.object({ vectors: z.array(fork) }).parse(await readVectors('fork-ids')).vectors;
}

export async function externalIdVectors() {
  const refused = z.array(z.object({ id: z.string(), fault: z.string() }));
  return z
    .object({ accepted: z.array(z.string()), refused })
    .parse(await readVectors('external-ids'));
}

async function readVectors(name: string): Promise<unknown> {
  const url = new URL(`../../fixtures/vectors/${name}.json`, import.meta.url);
  return JSON.parse(await readFile(url, 'utf8'));
}

const FingerprintVector = z.object({
  title: z.string(),
  organization: z.string(),
  destination: z.string(),
  readers: z.array(z.object({ kind: z.string(), id: z.string().optional(), floor: z.string() })),
  fingerprint: z.string(),
});
export type FingerprintVector = z.infer<typeof FingerprintVector>;

const SessionIdVector = z.object({
  title: z.string(),
  organization: z.string(),
  threadKey: z.string(),
  salt: z.string(),
  epoch: z.string(),
  audience: z
    .object({
      persona: z.string(),
      audienceHash: z.string(),
      mode: z.string(),
      projectBound: z.string().optional(),
      policyRevision: z.string(),
    })
    .optional(),
  sessionId: z.string(),
});
export type SessionIdVector = z.infer<typeof SessionIdVector>;

/** A vector's audience as the plain rules take it. */
export function fingerprintInput({ readers, ...rest }: FingerprintVector): FingerprintInput {
  return {
    ...rest,
    readers: readers.map(({ kind, id, floor }) => ({
      reader: readerOf(kind, id),
      floor: BigInt(floor),
    })),
  };
}

function readerOf(kind: string, id = ''): Reader {
  switch (kind) {
    case 'user':
      return { kind, user: id as ExternalId };
    case 'class:project':
      return { kind, project: id as ExternalId };
    case 'class:organization':
      return { kind };
    default:
      throw new RangeError('an unknown kind of reader');
  }
}

export function sessionParts({ audience, epoch, ...rest }: SessionIdVector): SessionParts {
  if (audience === undefined) return { ...rest, epoch: BigInt(epoch) };
  const { mode, policyRevision, projectBound, ...named } = audience;
  return {
    ...rest,
    epoch: BigInt(epoch),
    audience: {
      ...named,
      mode: mode as Mode,
      policyRevision: BigInt(policyRevision),
      ...(projectBound === undefined ? {} : { projectBound }),
    },
  };
}
