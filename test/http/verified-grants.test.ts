import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createKeys, openKeys } from '../../gateway/keys.ts';
import { keyFile } from '../../gateway/keys/key-file.ts';
import { retireKey, rotateKeys } from '../../gateway/keys/key-store.ts';
import { newTokenId, signGrant, verifyGrant } from '../../gateway/tokens/grant-token.ts';
import type { GrantPacket } from '../../sql/grants.ts';

// A token whose signature has verified is not verified again. What may change beside it is asked each time.

const ISSUER = 'earshot';
const LIMITS = { clockToleranceSeconds: 5, maxLifetimeSeconds: 600 };
const UUID = '0c6fb516-9686-4900-9bbd-a6710d959ef0';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-verified-'));
  await createKeys(folder);
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

/** A token of this gateway that has verified. */
async function verifiedToken(): Promise<string> {
  const keys = await openKeys(keyFile(folder));
  const issuedAt = Math.floor(Date.now() / 1000);
  const packet = {
    ...{ requester: 'ana', persona: 'assistant', organization: 'acme', destination: 'thread' },
    ...{ turnId: UUID, leaseId: UUID, leaseFence: 1n, audienceHash: 'a'.repeat(64) },
    ...{ issuedAt, expiresAt: issuedAt + 60 },
  } as GrantPacket;
  const token = await signGrant(keys, ISSUER, packet, newTokenId().jti);
  for (let call = 0; call < 2; call++) {
    expect(await verifyGrant(keys, ISSUER, token, LIMITS)).toMatchObject({ ok: true, turn: UUID });
  }
  return token;
}

describe('a grant token that has verified is refused', () => {
  test('once its key is retired', async () => {
    const token = await verifiedToken();
    const store = keyFile(folder);
    const [first] = await store.read();
    await rotateKeys(store, 0);
    expect(await retireKey(store, first?.kid ?? '')).toBe('retired');

    const refused = await verifyGrant(await openKeys(store), ISSUER, token, LIMITS);
    expect(refused).toMatchObject({ ok: false, code: 'malformed_token' });
  });

  test('once its time is over, and not before', async () => {
    const token = await verifiedToken();
    const keys = await openKeys(keyFile(folder));
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() + 64_000);
    expect(await verifyGrant(keys, ISSUER, token, LIMITS)).toMatchObject({ ok: true });
    vi.setSystemTime(Date.now() + 2_000);
    expect(await verifyGrant(keys, ISSUER, token, LIMITS)).toMatchObject({ code: 'grant_expired' });
  });

  test('while a clock says that it is not valid yet', async () => {
    const token = await verifiedToken();
    const keys = await openKeys(keyFile(folder));
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() - 10_000);
    expect(await verifyGrant(keys, ISSUER, token, LIMITS)).toMatchObject({
      code: 'malformed_token',
    });
  });

  test('by a gateway of another issuer, or of other keys', async () => {
    const token = await verifiedToken();
    const keys = await openKeys(keyFile(folder));
    const elsewhere = join(folder, 'elsewhere');
    await createKeys(elsewhere);

    const byIssuer = await verifyGrant(keys, 'another', token, LIMITS);
    const byKeys = await verifyGrant(await openKeys(keyFile(elsewhere)), ISSUER, token, LIMITS);
    expect([byIssuer, byKeys].map((refused) => !refused.ok && refused.code)).toEqual([
      'malformed_token',
      'malformed_token',
    ]);
  });

  test('where the longest life that is allowed has become shorter', async () => {
    const token = await verifiedToken();
    const keys = await openKeys(keyFile(folder));
    const shorter = { ...LIMITS, maxLifetimeSeconds: 59 };
    expect(await verifyGrant(keys, ISSUER, token, shorter)).toMatchObject({
      code: 'malformed_token',
    });
  });
});
