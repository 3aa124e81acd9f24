import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANN, BEN, said } from '../support/slack-export.ts';
import { command } from './command.ts';

const BOTH = 'C0BOTH0001';
const CLEO = { ...BEN, id: 'U0CLEO0001', name: 'cleo' };

let folder: string;
let decision: string;
const run = (...args: readonly string[]) => command(args, { cwd: folder });
const replay = (id: string, ...more: readonly string[]) =>
  run('replay', id, '--organization', 'acme', ...more);

/** Imports a channel with these members and this message. */
async function importChannel(members: readonly { id: string }[], ...lines: readonly object[]) {
  const files = {
    'users.json': [ANN, BEN, CLEO],
    'channels.json': [{ id: BOTH, name: 'both', members: members.map(({ id }) => id) }],
    'both/2021-03-01.json': lines,
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, 'export', dirname(path)), { recursive: true });
    await writeFile(join(folder, 'export', path), JSON.stringify(content));
  }
  const imported = await run(
    ...['import', 'slack', 'export', '--organization', 'acme', '--history', 'all'],
  );
  expect(imported).toMatchObject({ code: 0, errors: '' });
}

describe('replay', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'earshot-replay-'));
    expect(await run('init')).toMatchObject({ code: 0, errors: '' });
    await importChannel([ANN, BEN], said('1614600001.000000', 'the canary sings'));
    const asked = ['ask', 'canary', '--organization', 'acme', '--to', BOTH, '--as', ANN.id];
    const { code, out } = await run(...asked, '--create-persona', '--json');
    expect(code).toBe(0);
    ({ decision } = (JSON.parse(out) as { packet: { decision: string } }).packet);
  }, 60_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('draws then and now beside each other, and says what changed and for whom', async () => {
    const same = await replay(decision);
    expect(same).toMatchObject({ code: 0, errors: '' });
    const print = /audience {2}([0-9a-f]{12})/.exec(same.out)?.[1] ?? '';
    const lines = same.out.split('\n');
    expect(lines[0]).toMatch(new RegExp(`^same {2}tool search toward ${BOTH}, 20`));
    expect(lines[1]).toMatch(
      new RegExp(`^decision ${decision}, asked again at \\S+Z as [0-9a-f-]{36}$`),
    );
    expect(lines.slice(2)).toEqual([
      '',
      '            then          now           what changed',
      '  verdict   allowed       allowed',
      `  audience  ${print}  ${print}`,
      '  mode      mention       mention',
      '  policy    1             1',
      '',
      'It showed:',
      `  ${BOTH}/1  revision 1  shown`,
      '',
      'What else the search would find is not known: its words are on record as a digest.',
      'Whether turn, lease, grant and session are still those is not asked.',
      '',
    ]);

    await importChannel(
      [ANN, CLEO],
      said('1614600001.000000', 'it sings', { edited: { user: ANN.id, ts: '1614600009.000000' } }),
    );
    const changed = await replay(decision);
    expect(changed).toMatchObject({ code: 0, errors: '' });
    expect(changed.out).toMatch(new RegExp(`^changed {2}tool search toward ${BOTH}`));
    expect(changed.out).toMatch(
      /verdict {3}allowed {7}refused: audience_changed {2}another verdict/,
    );
    expect(changed.out).toContain(`came: 1 person (${CLEO.id}); gone: 1 person (${BEN.id})`);
    expect(changed.out).toContain(`${BOTH}/1  revision 1  edited  revision 2 now`);
    expect(changed.out).not.toContain('sings');
  });

  test('answers with all of it as JSON', async () => {
    const { code, out } = await replay(decision, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      of: { decision, kind: 'tool', tool: 'search', items: 1 },
      sources: [{ type: 'message', conversation: BOTH, seq: '1' }],
    });
  });

  test('ends with 1 for what is not there, and with 2 for what is no decision', async () => {
    expect(await replay(randomUUID())).toMatchObject({ code: 1, out: '' });
    expect(await run('replay', decision, '--organization', 'other')).toMatchObject({ code: 1 });
    expect(await replay('1')).toMatchObject({ code: 2, out: '' });
  });
});
