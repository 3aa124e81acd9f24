import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import { sha256Hex } from '../../policy/canonical.ts';
import { openDatabase } from '../../sql/database.ts';
import { enterQueueHouse, type QueueHouse } from '../http/queue-house.ts';
import { createTestDatabase } from '../support/database.ts';
import { gatewayOf, ok, type TestGateway } from '../support/gateway.ts';
import { command } from './command.ts';

let folder: string;
let env: Readonly<Record<string, string>>;
let gateway: Omit<TestGateway, 'target'>;
let close: () => Promise<void>;
let house: QueueHouse;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-delivery-'));
  const database = await createTestDatabase();
  env = { DATABASE_URL: database.gatewayUrl, DATABASE_ADMIN_URL: database.adminUrl };
  expect(await command(['init'], { cwd: folder, env })).toMatchObject({ code: 0, errors: '' });
  const settings = { ...env, EARSHOT_DATA_DIR: join(folder, 'earshot-data') };
  const superuser = openDatabase(database.superuserUrl, { max: 1 });
  gateway = await gatewayOf(await openInstance(readConfig(settings)), superuser.sql);
  close = async () => {
    await gateway.close();
    await superuser.close();
    await database.drop();
  };
}, 60_000);
afterAll(async () => {
  await close();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  house = await enterQueueHouse(gateway);
});

const run = (...args: readonly string[]) =>
  command(['delivery', ...args, '--organization', house.acme.name], { cwd: folder, env });
const json = (text: string) => JSON.parse(text) as Record<string, unknown>;
const SHA256 = sha256Hex('It sang.');

describe('delivery', { timeout: 120_000 }, () => {
  test('list tells how deliveries stand, the newest first, and narrows to what is asked for', async () => {
    expect(await run('list')).toEqual({ code: 0, out: 'There are none.\n', errors: '' });
    const queued = await house.queue();
    const waiting = await house.queue('It sings.', { approval: true, destination: 'room' });
    const { code, out } = await run('list');
    expect(code).toBe(0);
    const pad = (text: string) => text.padEnd(36);
    expect(out.split('\n')).toEqual([
      `${pad('delivery')}  status   toward  why`,
      `${pad(waiting.id)}  waiting  room`,
      `${pad(queued.id)}  cleared  thread`,
      '',
    ]);
    const idsOf = async (...more: string[]) => {
      const { deliveries } = json((await run('list', '--json', ...more)).out);
      return (deliveries as { id: string }[]).map(({ id }) => id);
    };
    expect(await idsOf('--status', 'waiting')).toEqual([waiting.id]);
    expect(await idsOf('--to', 'thread')).toEqual([queued.id]);
    const first = await run('list', '--limit', '1');
    const cursor = /--cursor (\S+)\n$/.exec(first.out)?.[1] ?? '';
    expect(await idsOf('--cursor', cursor)).toEqual([queued.id]);
  });

  test('show tells what holds one and what next, and nothing of its text', async () => {
    await house.acme.conversation('own', ['ana'], { aiThread: true, owner: 'ana' });
    await house.acme.remove('conversations/shared/members/ben');
    const { id } = await house.queue();
    const { code, out } = await run('show', id);
    expect(code).toBe(0);
    expect(out.replace(/\S+Z/, 'TIME').split('\n')).toEqual([
      `held  ${id}`,
      '  toward     thread',
      `  sha256     ${SHA256}`,
      '  why        source_revoked',
      '  what next  rebuild, by the agent',
      '  or toward  own',
      '  attempts   0',
      '  until      TIME',
      '',
    ]);
    expect(json((await run('show', id, '--json')).out)).toMatchObject({
      id,
      status: 'held',
      code: 'source_revoked',
      recoveryOwner: 'agent',
    });
  });

  test('approve lets go what waits, named by the SHA-256 of its bytes', async () => {
    const { id } = await house.queue('It sang.', { approval: true });
    const other = await run('approve', id, '--sha256', 'f'.repeat(64));
    expect(other).toMatchObject({ code: 1, out: '' });
    expect(other.errors).toContain('earshot delivery show');
    expect((await run('approve', id)).code).toBe(2);
    expect((await run('approve', id, '--sha256', 'f')).code).toBe(2);
    expect((await run('show', id)).out).toMatch(/^waiting .*\n[^]*approval +awaited\n/);

    const { code, out } = await run('approve', id, '--sha256', SHA256);
    expect(code).toBe(0);
    expect(out).toMatch(/^cleared .*\n[^]*approval +by the operator, \S+Z\n/);
    expect(await house.claimOne()).toMatchObject({ id });
  });

  test('approve of what its readers may not have any more holds it, which is an answer', async () => {
    const { id } = await house.queue('It sang.', { approval: true });
    await house.acme.put('conversations/thread/members/cleo', { history: 'all' });
    const { code, out } = await run('approve', id, '--sha256', SHA256, '--json');
    expect(code).toBe(0);
    expect(json(out)).toMatchObject({ status: 'held', code: 'audience_changed' });
  });

  test('discard ends what has not left, and refuses what has', async () => {
    const { id } = await house.queue();
    const { code, out } = await run('discard', id);
    expect([code, out.split(' ')[0]]).toEqual([0, 'discarded']);
    expect(await house.rowOf(id)).toMatchObject({ status: 'discarded', payload: null });

    const gone = await house.queue('It sings.');
    const claimed = await house.claimOne();
    ok(await house.release(claimed));
    ok(await house.report(claimed, 'delivered'));
    const refused = await run('discard', gone.id, '--json');
    expect(refused.code).toBe(1);
    expect(json(refused.out)).toMatchObject({ error: { code: 'conflict' } });
  });

  test('settle says what became of one that nobody reported in time, and of no other', async () => {
    const { id } = await house.queue();
    ok(await house.release(await house.claimOne()));
    const early = await run('settle', id, '--as', 'failed');
    expect(early).toMatchObject({ code: 1, out: '' });
    await house.pass(id, 'acknowledge_by');
    const failed = await run('settle', id, '--as', 'failed', '--reason', 'not there');
    expect(failed).toMatchObject({ code: 0, errors: '' });
    expect(failed.out).toMatch(/^scheduled .*\n[^]*why +not there\n/);

    await house.pass(id, 'not_before');
    ok(await house.release(await house.claimOne()));
    await house.pass(id, 'acknowledge_by');
    const delivered = await run('settle', id, '--as', 'delivered', '--message', 'm7', '--json');
    expect(delivered.code).toBe(0);
    expect(json(delivered.out)).toMatchObject({ status: 'delivered', message: 'm7' });
    expect((await run('settle', id, '--as', 'failed')).code).toBe(1);
  });

  test('settles a direct one as well', async () => {
    const sent = ok(await house.turn.propose('It sang.'));
    ok(await house.acme.release(sent));
    await house.pass(sent.id, 'acknowledge_by');
    expect((await run('settle', sent.id, '--as', 'failed')).out).toMatch(/^failed /);
  });

  test('ends with 1 for what is not there, and with 2 for what is no question', async () => {
    const { id } = await house.queue();
    const absent = id.replace(/^.{8}/, '00000000');
    for (const what of [
      ['show', absent],
      ['discard', absent],
      ['settle', absent, '--as', 'failed'],
      ['approve', absent, '--sha256', SHA256],
    ]) {
      expect(await run(...what)).toMatchObject({ code: 1, out: '' });
    }
    for (const what of [
      ['show', 'x'],
      ['list', '--status', 'sent'],
      ['list', '--limit', '0'],
      ['list', '--cursor', 'x'],
      ['settle', id],
      ['settle', id, '--as', 'failed', '--message', 'm1'],
      ['settle', id, '--as', 'delivered', '--reason', 'none'],
    ]) {
      expect((await run(...what)).code).toBe(2);
    }
    expect((await command(['delivery', 'list'], { cwd: folder, env })).code).toBe(2);
  });
});
