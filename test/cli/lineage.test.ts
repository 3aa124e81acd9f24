import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import { openDatabase } from '../../sql/database.ts';
import { artifactHouse, type ArtifactHouse, type Saved } from '../http/artifact-house.ts';
import { gatewayOf, ok } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import { command } from './command.ts';

let folder: string;
let close: () => Promise<void>;
let house: ArtifactHouse;
let first: Saved;
let second: Saved;
let delivery: Delivery;

const run = (...args: readonly string[]) => command(args, { cwd: folder });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-lineage-'));
  expect(await run('init')).toMatchObject({ code: 0, errors: '' });
  const dataDir = join(folder, 'earshot-data');
  const instance = await openInstance(readConfig({ EARSHOT_DATA_DIR: dataDir }));
  const admin = openDatabase(instance.adminUrl ?? '', { max: 1 });
  close = async () => {
    await admin.close();
    await instance.close();
  };
  house = await artifactHouse(await gatewayOf(instance, admin.sql), 'acme');
  first = await house.saveNotes();
  const turn = await house.start('second');
  ok(await house.read(turn, first.id));
  second = await house.save(turn, { kind: 'draft' });
  delivery = ok(await turn.propose('The canary sang.'));
  ok(await house.acme.release(delivery));
  ok(await house.acme.acknowledge(delivery, 'delivered', 'a1'));
  await house.write('notes', 'n2', 'it was not loud');
}, 60_000);
afterAll(async () => {
  await close();
  await rm(folder, { recursive: true, force: true });
});

const TIME = /\d{4}-\d\d-\d\dT[0-9:.]+Z/g;
const linesOf = (out: string) => out.replace(TIME, 'TIME').split('\n');

describe('lineage', { timeout: 60_000 }, () => {
  test('draws what an artifact was made from, what was made from it, and where that went', async () => {
    const { code, out, errors } = await run('lineage', 'acme', first.id);
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    const [head, saved, decision, ...rest] = linesOf(out);
    expect([head, saved]).toEqual([
      `memory ${first.id}  live, stale`,
      'saved by assistant at TIME in thread',
    ]);
    expect(decision).toMatch(/^decision [0-9a-f-]{36}$/);
    expect(rest).toEqual([
      '',
      'Made from:',
      '  notes/1        revision 1  live',
      '  notes/2        revision 1  edited',
      '  thread from 1              live',
      '',
      'Made from it:',
      `  draft ${second.id}  second  was read  live, stale  TIME`,
      '',
      'Went to:',
      `  second  message a1  was read  delivered  TIME  delivery ${delivery.id}`,
      '',
    ]);
  });

  test('does so for a message, by its conversation and number', async () => {
    const { code, out } = await run('lineage', 'acme', 'notes', '2');
    expect(code).toBe(0);
    const lines = linesOf(out);
    expect(lines.slice(0, 2)).toEqual(['notes/2  edited', 'message n2, revision 2']);
    expect(lines.slice(3)).toEqual([
      '',
      'Made from it:',
      `  draft ${second.id}   second  is behind it  live, stale  TIME`,
      `  memory ${first.id}  thread  was read      live, stale  TIME`,
      '',
      'Went to:',
      `  second  message a1  is behind it  delivered  TIME  delivery ${delivery.id}`,
      '',
    ]);
    const nothing = await run('lineage', 'acme', 'board', '1');
    expect(nothing.out).toContain('Nothing was made from it.');
  });

  test('answers with JSON, as the route does', async () => {
    const { code, out } = await run('lineage', 'acme', second.id, '--json');
    expect(code).toBe(0);
    const { decision: _decision, at: _at, ...told } = await house.lineage(second.id);
    expect(JSON.parse(out)).toMatchObject(told);
  });

  test('ends with 1 for what is not there, and with 2 for what is no question', async () => {
    const absent = await run('lineage', 'acme', 'notes', '99');
    expect(absent).toMatchObject({ code: 1, out: '' });
    expect((await run('lineage', 'nobody', first.id)).code).toBe(1);
    expect((await run('lineage', 'acme', 'notes')).code).toBe(2);
    expect((await run('lineage', 'acme', 'notes', 'x')).code).toBe(2);
    expect((await run('lineage', 'acme')).code).toBe(2);
  });
});
