import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import { createKeys } from '../../gateway/keys.ts';
import { openDatabase } from '../../sql/database.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { gatewayOf } from '../support/gateway.ts';

test('while the database is gone every call is refused as unavailable, and when it is back the gateway works by itself', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-out-'));
  const start = () =>
    startEmbedded({
      dataDir: join(dataDir, 'pg'),
      settings: { fsync: 'off', full_page_writes: 'off' },
    });
  let server = await start();
  await createKeys(dataDir);
  const instance = await openInstance(
    readConfig({
      DATABASE_URL: server.gatewayUrl(),
      DATABASE_ADMIN_URL: server.adminUrl(),
      EARSHOT_DATA_DIR: dataDir,
      EARSHOT_REQUEST_TIMEOUT_MS: '4000',
    }),
  );
  const superuser = openDatabase(server.superuserUrl('earshot'), { max: 1 });
  const gateway = await gatewayOf(instance, superuser.sql);
  try {
    const acme = await gateway.organization('acme');
    await acme.users('ana', 'ben');
    await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
    await acme.say('thread', 'ana', 'canary');
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    const cleared = await turn.propose('It sang.');
    const status = async (path: string) => (await gateway.send('GET', path)).status;
    const calls = () =>
      Promise.all([
        turn.tool('search', { query: 'canary' }),
        turn.propose('It sang again.'),
        turn.mint(),
        acme.openTurn({ destination: 'thread', requester: 'ana', trigger: '1' }),
        acme.release(cleared.body),
      ]);
    expect([await status('/readyz'), await status('/healthz')]).toEqual([200, 200]);

    await server.stop();
    for (let round = 0; round < 3; round++) {
      for (const { status: answered, code, headers } of await calls()) {
        expect({ answered, code }).toEqual({ answered: 503, code: 'unavailable' });
        expect(headers.get('retry-after')).toBe('1');
      }
      expect([await status('/readyz'), await status('/healthz'), await status('/v1')]).toEqual([
        503, 200, 200,
      ]);
    }

    server = await start();
    expect(await status('/readyz')).toBe(200);
    expect(await turn.search('canary')).toEqual(['canary']);
    expect((await acme.release(cleared.body)).body).toMatchObject({ payload: 'It sang.' });
  } finally {
    await gateway.close();
    await superuser.close();
    await server.stop();
    await rm(dataDir, { recursive: true });
  }
});
