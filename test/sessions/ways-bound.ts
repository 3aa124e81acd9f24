import { expect } from 'vitest';
import { ok, type Answer } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';
import { change, placeOf, refuses, said, type LogHouse, type Way } from './log-house.ts';

/** Something for ana, read at her place by a turn in one way or another. */
async function shownAna({ enter }: LogHouse, read: (ana: TestLog, id: string) => Promise<Answer>) {
  const entered = await enter();
  const { log } = entered;
  const ana = await placeOf(log, 'ana');
  const [id = ''] = await log.append(said(text('a word of ana', 'ana')));
  ok(await read(ana, id));
  return { ...entered, ana };
}

async function isHeld(turn: TestTurn): Promise<void> {
  const { status, code } = ok(await turn.propose('an answer'));
  expect([status, code]).toEqual(['held', 'narrowing_refused']);
}

const NAMED = 'named_in_all(p_org, restricted, p_readers)';
const NAMED_THERE = 'named_in_all(org, restricted, p_readers)';
const READS = [
  ['a compile', 'compile_log', NAMED_THERE, (ana: TestLog) => ana.compile()],
  ['a page of entries', 'list_log', NAMED, (ana: TestLog) => ana.entries()],
  ['a search', 'search_log', NAMED, (ana: TestLog) => ana.search('word')],
  [
    'a search that found nothing',
    'search_log',
    NAMED,
    (ana: TestLog) => ana.search('nothing of the kind'),
  ],
  [
    'a summary input',
    'summary_input',
    NAMED_THERE,
    (ana: TestLog, id: string) => ana.summaryInput(id, id),
  ],
  [
    'a look at the pins',
    'pinned_log',
    NAMED,
    async (ana: TestLog, id: string) => {
      ok(await ana.pin(id));
      return ana.pins();
    },
  ],
  ['a look at how much there is', 'describe_log', NAMED_THERE, (ana: TestLog) => ana.describe()],
] as const;

const KEPT = [
  change(
    'it is not kept with the turn',
    'read_log',
    'if binding is not null then',
    'if false then',
  ),
  change(
    'a delivery does not ask',
    'judge_disclosure',
    'p_turn.only_for is not null and',
    'false and',
  ),
];

/** What a turn makes that was shown something for some readers only. */
export const BOUND: readonly Way[] = [
  ...READS.map(([what, routine, named, read]): Way => ({
    way: `a turn that was shown a block for some readers by ${what} delivers to them alone`,
    holds: async (house) => isHeld((await shownAna(house, read)).turn),
    mutants: [
      change(
        'it is not looked for',
        routine,
        `result.only_for := ${named}`,
        'result.only_for := null',
      ),
      ...(what === 'a compile' ? KEPT : []),
    ],
  })),
  {
    way: 'a turn that reads where others were shown such blocks is bound as they were',
    async holds(house) {
      const { ana, writer, log, another } = await shownAna(house, (of) => of.compile());
      const derived = await ana
        .by(writer)
        .open({ name: 'derived', from: await handleOf(ana.by(writer)) });
      const fork = await ana.fork('side');
      for (const at of [ana, log.through(derived.handle), fork]) {
        const turn = await another();
        expect(ok(await at.by(turn).pins()).entries).toEqual([]);
        await isHeld(turn);
      }
    },
    mutants: [
      change(
        'what it reads itself alone counts',
        'read_log',
        'binding := (namespace_of(call.session, p_handle)).only_for',
        'binding := seen.only_for',
      ),
      change(
        'what is derived begins anew',
        'open_namespace',
        '\n      parent.only_for)',
        '\n      null)',
      ),
      change(
        'a fork begins anew',
        'fork_log',
        'place.watermark, place.only_for)',
        'place.watermark, null)',
      ),
    ],
  },
  {
    way: 'a place that is opened from another one takes over whom it is bound to, and its claim',
    async holds({ enter }) {
      const { log, another } = await enter();
      const [ana, second] = [await placeOf(log, 'ana'), await placeOf(log, 'ana', 'second')];
      await log.append(said(text('a word of ana', 'ana')));
      ok(await ana.compile());
      const turn = await another();
      await log.open({ name: 'second', from: await handleOf(ana) });
      ok(await second.by(turn).pins());
      await isHeld(turn);
      const { handle: own } = await log.open({});
      await log.open({ name: 'desk' });
      await log.open({ name: 'desk', from: own });
      refuses(await log.tryOpen({ name: 'desk', reader: 'ana' }), 'conflict');
    },
    mutants: [
      change(
        'it is bound to what it was',
        'open_namespace',
        'meet(n.only_for, parent.only_for)',
        'n.only_for',
      ),
      change(
        'it may still be claimed',
        'open_namespace',
        'claimed = n.claimed or parent.claimed',
        'claimed = n.claimed',
      ),
    ],
  },
  {
    way: 'a turn that was shown blocks for several makes something for those alone who were named in each',
    async holds({ enter }) {
      for (const together of [true, false]) {
        const { log, another } = await enter();
        const ben = await placeOf(log, 'ben');
        await log.append(said(text('one', 'ana', 'ben')));
        const { cursor = '' } = together ? {} : ok(await ben.entries());
        await log.append(said(text('two', 'ben', 'cleo')));
        ok(await ben.entries(together ? '' : `after=${cursor}`));
        const later = await another();
        ok(await ben.by(later).pins());
        for (const by of [log, log.by(later)]) {
          for (const names of [
            ['ana', 'ben'],
            ['ben', 'cleo'],
          ])
            refuses(await by.tryAppend([entry(text('made', ...names))]), 'narrowing_refused');
          ok(await by.tryAppend([entry(text('made', 'ben'))]));
        }
      }
    },
    mutants: [
      change(
        'one of the audiences counts',
        'named_in_all',
        'where n.times = (select count(*) from binding)',
        'where true',
      ),
      change('the first one read counts', 'meet', 'where x = any (p_other)', ''),
      change(
        'the last one read counts',
        'read_log',
        'meet(n.only_for, seen.only_for)',
        'seen.only_for',
      ),
    ],
  },
  {
    way: 'a turn that was shown several places is bound by each',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append(said(text('one', 'ana')), said(text('two', 'ben')));
      for (const reader of ['ana', 'ben']) ok(await (await placeOf(log, reader)).compile());
      refuses(await log.tryAppend([entry(text('made', 'ben'))]), 'narrowing_refused');
    },
    mutants: [change('the last one counts', 'read_log', 'meet(t0.only_for, binding)', 'binding')],
  },
  {
    way: 'what a turn writes of such blocks names their readers, and no others',
    async holds(house) {
      const { log, ana, writer } = await shownAna(house, (of) => of.compile());
      const [id = ''] = await log.by(writer).append(said(text('said', 'ana')));
      for (const blocks of [[text('made')], [text('made', 'ana', 'ben')]]) {
        refuses(await log.tryAppend([entry(...blocks)]), 'narrowing_refused');
        refuses(await ana.edit(id, '1', blocks), 'narrowing_refused');
      }
      const call = { type: 'tool_call', id: 'c', name: 'n', arguments: {} };
      for (const other of [
        { ...said(text('made')), role: 'system' },
        { ...said(text('made')), participant: 'cleo' },
        said(call),
      ]) {
        refuses(await log.tryAppend([other]), 'narrowing_refused');
      }
      ok(await log.tryAppend([entry(text('made', 'ana')), said(text('a question'))]));
    },
    mutants: [
      change(
        'an append does not ask',
        'append_log',
        "judge_blocks(call.live, entry -> 'blocks',",
        "judge_blocks(null, entry -> 'blocks',",
      ),
      change(
        'a host is not asked',
        'append_log',
        "entry ->> 'role' = 'user'",
        "entry ->> 'role' <> 'agent'",
      ),
      change('anybody speaks for people', 'judge_blocks', 'r.external_id = p_person', 'true'),
      change(
        'people are taken to call tools',
        'judge_blocks',
        "not b.block ->> 'type' = any ('{text,image}')",
        'false',
      ),
      change(
        'an edit does not ask',
        'edit_log',
        "else judge_blocks(call.live, p_edit -> 'blocks')",
        '',
      ),
      change(
        'a block for everybody is not one',
        'judge_blocks',
        "not b.block ? 'audience'",
        'false',
      ),
      change(
        'another name is not looked at',
        'judge_blocks',
        'where not who.name = any (only_for)',
        'where false',
      ),
    ],
  },
  {
    way: 'a class is among the readers of no such block, whatever it is named like',
    async holds(house) {
      const { log, turn } = await house.enter('team');
      const team = await placeOf(log, 'ana-team');
      await log.append(said(text('a word', 'ana-team')));
      ok(await team.compile());
      refuses(await log.tryAppend([entry(text('made'))]), 'narrowing_refused');
      await isHeld(turn);
    },
    mutants: [
      change('a delivery takes it for a person', 'judge_disclosure', "r.kind <> 'user' or", ''),
      change(
        'the log takes it for a person',
        'judge_blocks',
        "where r.kind <> 'user' or not",
        'where not',
      ),
    ],
  },
  {
    way: 'an agent with the id of a person is that person, and a stranger binds as well',
    async holds({ enter }) {
      for (const name of ['agent:zoe', 'stranger']) {
        const { log, turn } = await enter();
        const there = await placeOf(log, name);
        await log.append(said(text('a word', name)));
        ok(await there.compile());
        await isHeld(turn);
      }
    },
    mutants: [
      change(
        'the agent counts',
        'named_in_all',
        'or exists (select from users u where u.org_id = p_org and u.external_id = who.name)',
        '',
      ),
      change(
        'a stranger does not count',
        'named_in_all',
        "not starts_with(who.name, 'agent:')",
        'false',
      ),
    ],
  },
];

async function handleOf(log: TestLog): Promise<string> {
  const [own] = ok(await log.describe()).namespaces;
  return own?.handle ?? '';
}
