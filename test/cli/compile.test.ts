import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import { openDatabase } from '../../sql/database.ts';
import { gatewayOf, ok } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';
import { command } from './command.ts';

let folder: string;
let close: () => Promise<void>;
let enter: () => Promise<Entered>;
let stateOf: (turn: string) => Promise<unknown>;

/** A session of its own, in the thread of ann and ben, and the command that looks at it. */
interface Entered {
  readonly log: TestLog;
  readonly compile: (...more: readonly string[]) => ReturnType<typeof command>;
}

interface Shown extends CompiledLog {
  readonly turn: string;
  readonly mode: string;
  readonly sessionId: string;
  readonly decision: string;
}

const run = (...args: readonly string[]) => command(args, { cwd: folder });
const said = (...blocks: object[]) => ({ role: 'user', participant: 'ann', blocks });
const shownBy = ({ out }: { out: string }) => JSON.parse(out) as Shown;
/** The lines of the table. */
const rowsOf = (out: string) => out.split('\n').filter((line) => /^ +[0-9]+ {2}[a-z]/.test(line));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-compile-'));
  expect(await run('init')).toMatchObject({ code: 0, errors: '' });
  const dataDir = join(folder, 'earshot-data');
  const instance = await openInstance(readConfig({ EARSHOT_DATA_DIR: dataDir }));
  const admin = openDatabase(instance.adminUrl ?? '', { max: 1 });
  close = async () => {
    await admin.close();
    await instance.close();
  };
  const gateway = await gatewayOf(instance, admin.sql);
  const acme: TestOrganization = await gateway.organization('acme');
  await acme.users('ann', 'ben');
  await acme.conversation('thread', ['ann', 'ben'], { aiThread: true });
  await acme.say('thread', 'ann', 'a question');
  enter = async () => {
    const threadKey = randomUUID();
    const at = { destination: 'thread', requester: 'ann', trigger: '1', threadKey };
    const place = [
      '--organization',
      'acme',
      '--to',
      'thread',
      '--as',
      'ben',
      '--thread',
      threadKey,
    ];
    return {
      log: logOf(gateway, await acme.turn(at)),
      compile: (...more) => run('compile', ...place, ...more),
    };
  };
  stateOf = async (turn) => {
    const { bridge: token } = gateway.tokens;
    return ok(await gateway.send('GET', `/v1/turns/${turn}?organization=acme`, { token }));
  };
}, 60_000);
afterAll(async () => {
  await close();
  await rm(folder, { recursive: true, force: true });
});

describe('compile', { timeout: 60_000 }, () => {
  test('draws a line for each message with what it costs, and sums them by kind', async () => {
    const { log, compile } = await enter();
    const [first = '', second = ''] = await log.append(
      said(text(`the tides ${'of a long way '.repeat(20)}`)),
      entry(text(`an answer ${'that goes on '.repeat(20)}`)),
    );
    await log.summarize({ from: first, to: second }, 'tides');
    const summaries = ok(await log.summaries()).summaries.map(({ id }) => id);
    await log.summarize({ of: summaries }, 'tides');
    const [pin = ''] = await log.append(
      said(text('what is next?')),
      entry(
        text('I look'),
        { type: 'tool_call', id: 'c1', name: 'find', arguments: { q: 'tide' } },
        { type: 'tool_result', call: 'c1', content: [{ type: 'text', text: 'high at nine' }] },
      ),
    );
    ok(await log.inject({ source: 'memory', parts: [{ text: 'ann likes tea' }] }));
    ok(await log.pin(pin));

    const { code, out, errors } = await compile('--budget', '1000');
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    const lines = out.split('\n');
    expect(lines[0]).toBe(`session ${log.session}, mode thread`);
    expect(lines[1]).toMatch(/^decision [0-9a-f-]{36}$/);
    expect(lines.slice(2)).toEqual([
      '',
      '  #  kind        who              tokens  share            marks      text',
      '  1  summary L2  user/summary         14    25%  ███████   2 entries  [a summary of 2 earlier entries] tides',
      '  2  entry       user/ann              8    14%  ████      pinned     what is next?',
      '  3  entry       agent/assistant      17    30%  ████████             I look [call] find {"q":"tide"}',
      '  4  entry       agent/assistant      11    19%  ██████               [result] high at nine',
      '  5  injection   user/memory           7    12%  ████                 ann likes tea',
      '',
      '  total        57 tokens in 5 messages, of 1,000 that it may have',
      '    entries    36 tokens in 2 entries of 4 blocks',
      '    summaries  14 tokens in 1 summary',
      '    injections 7 tokens in 1 injection',
      '  estimator    o200k_base',
      '  dearer       0 summaries left out, for costing more than what goes raw instead',
      '  shared       0 of 5 messages with the request sent last, 0 of 586 bytes',
      '',
    ]);
  });

  test('gives the whole preview as JSON, completes its turn, and sends nothing', async () => {
    const { log, compile } = await enter();
    await log.append(said(text('one')), entry(text('two')));
    const { messages } = ok(await log.compile());
    await log.append(said(text('three')));

    const told = await compile('--json', '--estimator', 'characters', '--model', 'some-model');
    expect(told).toMatchObject({ code: 0, errors: '' });
    const { turn, mode, sessionId, decision, ...shown } = shownBy(told);
    expect({ mode, sessionId }).toEqual({ mode: 'thread', sessionId: log.session });
    expect(await stateOf(turn)).toMatchObject({ state: 'completed', requester: 'ben' });
    expect(decision).toMatch(/^[0-9a-f-]{36}$/);
    const own = ok(await log.preview({ estimator: 'characters', model: 'some-model' }));
    expect({ ...shown, decision: '' }).toMatchObject({ ...own, decision: '' });
    // The continuation marker was sent, and is not there now.
    expect(shown.stats.shared.messages).toBe(messages.length - 1);
    expect(ok(await log.preview()).stats.shared.messages).toBe(messages.length - 1);
  });

  test('says which summaries cost more than their entries, and what is cut, pruned and at its end', async () => {
    const { log, compile } = await enter();
    const [one = '', , result = ''] = await log.append(
      said(text('one')),
      entry({ type: 'tool_call', id: 'c1', name: 'find', arguments: {} }),
      entry({ type: 'tool_result', call: 'c1', value: { found: 'a long list '.repeat(20) } }),
      said(text('a long word '.repeat(50))),
      entry(text('the last word'), { type: 'thinking', text: 'hm' }),
    );
    await log.summarize({ from: one, to: one }, 'somebody said one, and no more than that');
    const limits = ['--max-entry-tokens', '20', '--prune-tool-results', '0'];
    const windows = ['--head-tokens', '0', '--recent-tokens', '0'];
    const { code, out } = await compile(...limits, ...windows, '--pin', result);
    expect(code).toBe(0);
    const told = rowsOf(out).map((row) => row.trim().split(/ {2,}/));
    expect(told.map(([nth, kind, who, , , , ...rest]) => [nth, kind, who, ...rest])).toEqual([
      ['1', 'entry', 'user/ann', 'one'],
      ['2', 'entry', 'agent/assistant', '[call] find {}'],
      [
        ...['3', 'entry', 'agent/assistant', 'pinned, pruned'],
        '[result] [the content of an earlier result is lef…',
      ],
      ['4', 'entry', 'user/ann', 'cut', 'a long word a long word a long word a long word…[…'],
      ['5', 'entry', 'agent/assistant', 'the last word [thinking] hm'],
      ['6', 'marker', 'user/gateway', '[continue]'],
    ]);
    expect(out).toContain('dearer       1 summary left out');
  });

  test('lets no text of a log move the cursor, change a color or turn the direction of a line', async () => {
    const { log, compile } = await enter();
    const hostile =
      '\u001b[2J\u001b]0;title\u0007\u009b31mred\u202etxet\u2066\r\nnext\u2028line\u0008';
    await log.append({ ...said(text(hostile)), participant: 'an\u202en' });
    const { code, out } = await compile();
    expect(code).toBe(0);
    expect(out).toMatch(/ user\/an n .* \[2J \]0;title 31mred txet next line\n/);
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028]/u);
  });

  test('shows what is over its budget, with what would make it smaller, and ends with 1', async () => {
    const { log, compile } = await enter();
    const [first = '', last = ''] = await log.append(
      said(text('a long word '.repeat(100))),
      entry(text('another word '.repeat(100))),
    );
    const over = await compile('--budget', '60', '--recent-tokens', '30');
    expect(over.code).toBe(1);
    expect(rowsOf(over.out)).toHaveLength(3);
    const total = Number(/ total +([0-9]+) tokens in 3 messages, of 60/.exec(over.out)?.[1]);
    const [what, ...mend] = over.errors.trimEnd().split('\n');
    expect(what).toBe(
      `earshot: The request has ${total} tokens, and its budget is 60: ${total - 60} too many.`,
    );
    expect(mend[0]).toBe('Tokens are freed by');
    expect(mend[1]).toMatch(
      new RegExp(
        `^ {2}- a summary of the entries from ${first} to ${last}: up to [0-9]+ tokens(, which can be enough)?$`,
      ),
    );
    expect(mend[2]).toMatch(
      /^ {2}- --max-entry-tokens 16: up to [0-9]+ tokens, which can be enough$/,
    );
    expect(mend).toHaveLength(3);

    const asked = ['--budget', '60', '--json'];
    const told = await compile(...asked);
    expect(told).toMatchObject({ code: 1, errors: '' });
    expect(JSON.parse(told.out)).toMatchObject({
      error: {
        code: 'over_budget',
        message: what?.slice('earshot: '.length),
        over: {
          budget: 60,
          tokens: total,
          steps: [{ step: 'summarize', from: first, to: last }, {}],
        },
      },
    });
    expect((await compile(...asked, '--max-entry-tokens', '16')).code).toBe(0);
    await log.summarize({ from: first, to: last }, 'words');
    expect((await compile(...asked)).code).toBe(0);
  });

  test('looks through the place that a handle opens', async () => {
    const { log, compile } = await enter();
    await log.append(said(text('for all'), text('for ann alone', 'ann')));
    const { handle } = await log.open({ name: 'of-ann', reader: 'ann' });
    expect((await compile()).out).not.toContain('alone');
    expect((await compile('--namespace', handle)).out).toContain('for all for ann alone');
  });

  test('says that nothing would be sent of a log without entries', async () => {
    const { log, compile } = await enter();
    const { code, out, errors } = await compile('--budget', '0');
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    expect(out).toMatch(
      /^session [0-9a-f-]{36}, mode thread\ndecision [0-9a-f-]{36}\n\nNothing would be sent: .*\n$/,
    );
    const { sessionId, messages, stats } = shownBy(await compile('--json'));
    expect(sessionId).toBe(log.session);
    expect({ messages, total: stats.tokens.total }).toEqual({ messages: [], total: 0 });
  });

  test('ends with 1 for what is not there, and with 2 for a command line that cannot be meant', async () => {
    const { compile } = await enter();
    const absent = [
      ['--pin', randomUUID()],
      ['--namespace', randomUUID()],
      ['--as', 'nobody'],
      ['--persona', 'nobody'],
    ];
    for (const more of absent) {
      const { code, out, errors } = await compile(...more);
      expect({ more, code, out }).toEqual({ more, code: 1, out: '' });
      expect(errors).toMatch(/--pin|--to|persona nobody/);
    }
    const wrong = [
      ['--pin', 'x'],
      ['--namespace', ''],
      ['--budget', '1e3'],
      ['--max-entry-tokens', '15'],
      ['--model', 'a\u0007'],
      ['--estimator', 'guess'],
      ['--thread', ''],
    ];
    for (const more of wrong) {
      const { code, out, errors } = await compile(...more);
      expect({ more, code, out }).toEqual({ more, code: 2, out: '' });
      expect(errors).toContain(more[0]);
    }
  });
});
