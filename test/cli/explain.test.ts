import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANN, BEN, said } from '../support/slack-export.ts';
import { command } from './command.ts';

const [BOTH, ONE] = ['C0BOTH0001', 'C0ANN00001'];

let folder: string;
const run = (...args: readonly string[]) => command(args, { cwd: folder });

/** Explains a source toward the channel of both, asked by ann. */
const explain = (source: string, ...more: readonly string[]) =>
  run('explain', source, '--organization', 'acme', '--to', BOTH, '--as', ANN.id, ...more);

describe('explain', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'earshot-explain-'));
    const files = {
      'users.json': [ANN, BEN],
      'channels.json': [
        { id: BOTH, name: 'both', members: [ANN.id, BEN.id] },
        { id: ONE, name: 'one', members: [ANN.id] },
      ],
      'both/2021-03-01.json': [said('1614600001.000000', 'the canary sings')],
      'one/2021-03-01.json': [said('1614600002.000000', 'it sings alone')],
    };
    for (const [path, content] of Object.entries(files)) {
      await mkdir(join(folder, 'export', dirname(path)), { recursive: true });
      await writeFile(join(folder, 'export', path), JSON.stringify(content));
    }
    expect(await run('init')).toMatchObject({ code: 0, errors: '' });
    const imported = await run(
      ...['import', 'slack', 'export', '--organization', 'acme', '--history', 'all'],
    );
    expect(imported).toMatchObject({ code: 0, errors: '' });
    const asked = ['ask', 'canary', '--organization', 'acme', '--to', BOTH, '--as', ANN.id];
    expect((await run(...asked, '--create-persona')).code).toBe(0);
  }, 60_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('draws the grid, and says who lacks the source and what would bring it in', async () => {
    const out = await explain(ONE, '--trigger', 'disclosure');
    expect(out).toMatchObject({ code: 0, errors: '' });
    const lines = out.out.split('\n');
    expect(lines[0]).toBe(`out  ${ONE} for a turn toward ${BOTH}`);
    expect(lines[1]).toMatch(/^mode thread, decision [0-9a-f-]{36}$/);
    expect(lines.slice(2)).toEqual([
      '',
      '  reader           at the destination  at the source',
      `  user:${ANN.id}  from 1              from 1`,
      `  user:${BEN.id}  from 1              does not read it`,
      '  all of them                          do not',
      '',
      'Why:',
      `  - not read by user:${BEN.id}`,
      '',
      'It would be in:',
      `  - if user:${BEN.id} read the source`,
      '',
    ]);
    const found = await explain(BOTH, '--seq', '1');
    expect(found).toMatchObject({ code: 0, errors: '' });
    expect(found.out).toMatch(
      new RegExp(`^in {2}${BOTH}/1 for a turn toward ${BOTH}\nmode mention`),
    );
    expect(found.out).not.toContain('Why');
  });

  test('answers with the explanation as JSON, and as the one who asks without the names of others', async () => {
    const { code, out } = await explain(ONE, '--json', '--as-viewer');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      ...{ verdict: 'out', mode: 'mention', changes: [] },
      reasons: [
        { kind: 'mode', mode: 'mention' },
        { kind: 'not_read', readers: [1] },
      ],
    });
    expect(out).not.toContain(BEN.id);
    const named = await explain(ONE, '--json');
    expect(named.out).toContain(BEN.id);
  });

  test('ends with 1 for what is not there or not read, alike, and with 2 for what is no question', async () => {
    const absent = await explain('C0NONE0001', '--as-viewer');
    expect(absent).toMatchObject({ code: 1, out: '' });
    const by = ['--organization', 'acme', '--to', BOTH, '--as', BEN.id, '--as-viewer'];
    expect(await run('explain', ONE, ...by)).toEqual(absent);
    for (const more of [
      ['--seq', 'x'],
      ['--trigger', 'thread'],
      ['--trigger', 'never'],
    ]) {
      expect((await explain(ONE, ...more)).code).toBe(2);
    }
    expect((await explain('a\u0007')).code).toBe(2);
  });
});
