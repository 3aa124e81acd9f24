import { decodeJwt } from 'jose';
import { expect } from 'vitest';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { CompiledLog } from '../../sessions/view-shape.ts';
import { readLog } from '../../sql/context-log.ts';
import { ok, type Answer } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';
import { change, type LogHouse, type Way } from './log-house.ts';
import { refuses, said } from './log-ways.ts';

const forAna = [text('a secret', 'ana')];

/** A place for one reader. */
async function place(log: TestLog, reader: string, name = `of ${reader}`): Promise<TestLog> {
  return log.through((await log.open({ name, reader })).handle);
}

/** A handle from before ana claimed its namespace, and the place that she claimed. */
async function claimed(log: TestLog) {
  const before = (await log.open({ name: 'desk' })).handle;
  const ana = await place(log, 'ana', 'desk');
  return { before, stale: log.through(before), ana };
}

/** Who may use a session, and through which handle. */
export const OWNERSHIP: readonly Way[] = [
  {
    way: 'a session is held for the audience that is named',
    async holds({ enter }) {
      const { turn, log } = await enter();
      const grant = { ...turn.grant, audienceHash: '0'.repeat(64) };
      refuses(await log.by({ grant }).compile(), 'session_not_yours');
    },
    mutants: [change('any will do', 'session_of', 'and g.audience_hash = p_audience', '')],
  },
  {
    way: 'a session of another mode is another one, though all else is the same',
    async holds({ acme, gateway }) {
      const alone = `alone-${Math.random().toString()}`;
      const begin = async (more: object) => {
        await acme.conversation(alone, ['ana'], { aiThread: true, ...more });
        return acme.turn({ destination: alone, requester: 'ana', trigger: '1' });
      };
      await acme.conversation(alone, ['ana'], { aiThread: true, owner: 'ana' });
      await acme.say(alone, 'ana', 'a question');
      const before = await begin({ owner: 'ana' });
      await logOf(gateway, before).append(said(text('CANARY')));
      const after = await begin({});
      if (after.grant.mode === before.grant.mode) throw new Error('the mode is the same');
      refuses(await logOf(gateway, before).by(after).compile(), 'session_not_yours');
    },
    mutants: [change('the root is not asked', 'session_of', 'and s.root_id = g.id', '')],
  },
  {
    way: 'a session of another conversation is not the grant’s',
    async holds({ enter }) {
      const [mine, other] = [await enter(), await enter('open')];
      refuses(await mine.log.by(other.turn).compile(), 'session_not_yours');
      const stated = { grant: { ...other.turn.grant, audienceHash: mine.turn.grant.audienceHash } };
      refuses(await mine.log.by(stated).compile(), 'session_not_yours');
    },
    mutants: [
      change(
        'any session of the organization is',
        'session_of',
        `s.root_id = g.id
    and s.conversation_id = g.conversation_id and s.persona_id = g.persona_id and s.thread_key = g.thread_key
    and s.epoch = g.epoch and s.audience_hash = g.audience_hash and s.policy_revision = g.policy_revision`,
        'true',
      ),
    ],
  },
  {
    way: 'a fork that is quarantined answers nothing more',
    async holds(house) {
      const { log } = await house.enter();
      const fork = await log.fork('side');
      await changeSource(house, fork);
      refuses(await fork.compile(), 'source_changed');
      refuses(await fork.entries(), 'session_quarantined');
    },
    mutants: [
      change('its state is not asked', 'judge_session', "held.state <> 'open'", 'false'),
      change(
        'it is not quarantined',
        'record_session_call',
        "p_code in ('source_revoked', 'source_changed')",
        'false',
      ),
    ],
  },
  {
    way: 'a handle that another reader’s claim replaced opens nothing',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('a word')));
      const { stale, before } = await claimed(log);
      refuses(await stale.compile(), 'not_found');
      refuses(await stale.pin(id), 'not_found');
      refuses(await stale.edit(id, '1', [text('another')]), 'not_found');
      refuses(await stale.tryFork('stale'), 'not_found');
      refuses(await log.tryOpen({ name: 'derived', from: before }), 'not_found');
    },
    mutants: [
      change(
        'it opens the claimed one',
        'namespace_of',
        'else n.handle = p_handle end',
        "else n.handle = p_handle or n.name = 'desk' end",
      ),
      change(
        'a claim leaves it',
        'open_namespace',
        'claimed = true, handle = gen_random_uuid()',
        'claimed = true',
      ),
    ],
  },
  {
    way: 'a handle that opens nothing raises no watermark',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const { stale, ana } = await claimed(log);
      const [id = ''] = await log.append(said(text('for ana', 'ana')));
      refuses(await stale.compile(), 'not_found');
      const edited = await ana.by(writer).edit(id, '1', [text('for eve', 'eve')]);
      expect(edited.code).toBeUndefined();
    },
    mutants: [
      change(
        'it raises every one',
        'raise_watermark',
        "case when p_handle is null then n.name = 'default' else n.handle = p_handle end",
        'true',
      ),
    ],
  },
  {
    way: 'a namespace is opened for its own reader alone',
    async holds({ enter }) {
      const { log } = await enter();
      const { handle } = await log.open({ name: 'of ana', reader: 'ana' });
      refuses(await log.tryOpen({ name: 'of ana', reader: 'ben' }), 'conflict');
      refuses(await log.tryOpen({ name: 'derived', reader: 'ben', from: handle }), 'conflict');
      refuses(await log.tryOpen({ name: 'default', from: handle }), 'conflict');
      refuses(await log.tryOpen({ name: 'of ana', agent: 'another' }), 'conflict');
      expect(await log.open({ name: 'derived', from: handle })).toMatchObject({ reader: 'ana' });
    },
    mutants: [
      change(
        'another gets its handle',
        'open_namespace',
        'when p_reader is not null and place.claimed and',
        'when false and',
      ),
      change(
        'another derives one from it',
        'open_namespace',
        'when p_reader is not null and p_reader is distinct from parent.reader',
        'when false',
      ),
      change(
        'one that is there is derived anew',
        'open_namespace',
        'when p_from is not null and place.reader is distinct from parent.reader',
        'when false',
      ),
      change(
        'another agent stands in it',
        'open_namespace',
        'when p_agent is not null and p_agent is distinct from place.agent',
        'when false',
      ),
      change(
        'what is derived is for the audience',
        'open_namespace',
        'coalesce(p_reader, parent.reader)',
        'p_reader',
      ),
    ],
  },
  {
    way: 'a namespace that was read through is claimed by nobody',
    async holds({ enter }) {
      const { log } = await enter();
      const { handle } = await log.open({ name: 'desk' });
      ok(await log.through(handle).compile());
      refuses(await log.tryOpen({ name: 'desk', reader: 'ana' }), 'conflict');
    },
    mutants: [
      change(
        'another gets its handle',
        'open_namespace',
        'when p_reader is not null and place.claimed and',
        'when false and',
      ),
    ],
  },
];

/** Appends an entry from a message of its own, which changes then. */
async function changeSource({ acme }: LogHouse, log: TestLog): Promise<void> {
  const path = `conversations/notes/messages/${crypto.randomUUID()}`;
  const message = { author: { user: 'ben' }, body: 'a note', sentAt: '2026-01-01T00:00:00Z' };
  const { seq = '' } = await acme.put(path, message);
  await log.append({ ...said(text('made of it')), sources: [{ conversation: 'notes', seq }] });
  await acme.put(path, { ...message, body: 'another', editedAt: '2026-01-02T00:00:00Z' });
}

const reads: readonly ((log: TestLog, id: string) => Promise<Answer>)[] = [
  (log) => log.compile(),
  (log) => log.preview(),
  (log) => log.entries(),
  (log) => log.search('word'),
  (log, id) => log.summaryInput(id, id),
  (log) => log.pins(),
  (log) => log.describe(),
];

/** What a session was shown is asked before anything is read from it, and a read is announced before it happens. */
export const ANNOUNCED: readonly Way[] = [
  {
    way: 'nothing is read once a source has changed',
    async holds(house) {
      for (const read of reads) {
        const { log } = await house.enter();
        const [id = ''] = await log.append(said(text('a word')));
        await changeSource(house, log);
        refuses(await read(log, id), 'source_changed');
      }
    },
    mutants: [
      change(
        'the ledger is not asked',
        'look',
        'judge_ledger(p_call.live, held.id, p_now)',
        'null',
      ),
      change(
        'an entry’s sources are not in it',
        'write_entry',
        'order by f.conversation_id, f.seq',
        'limit 0',
      ),
    ],
  },
  {
    way: 'nothing is forked once a source has changed',
    async holds(house) {
      const { log } = await house.enter();
      await changeSource(house, log);
      refuses(await log.tryFork('late'), 'source_changed');
    },
    mutants: [
      change(
        'the ledger is not asked',
        'fork_log',
        'judge_ledger(call.live, p_session, t)',
        'null',
      ),
    ],
  },
  {
    way: 'a fork answers for what its parent was shown',
    async holds(house) {
      const { log } = await house.enter();
      const path = `conversations/notes/messages/${crypto.randomUUID()}`;
      const message = { author: { user: 'ben' }, body: 'a note', sentAt: '2026-01-01T00:00:00Z' };
      const { seq = '' } = await house.acme.put(path, message);
      await log.append({ ...said(text('made of it')), sources: [{ conversation: 'notes', seq }] });
      const fork = await log.fork('side');
      await house.acme.remove(path);
      refuses(await fork.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'its ledger is empty',
        'fork_log',
        'order by l.conversation_id, l.from_seq',
        'limit 1',
      ),
    ],
  },
  {
    way: 'what a turn makes of a fork answers for what the fork was shown',
    async holds(house) {
      const { log, turn } = await house.enter();
      await changeSource(house, await log.fork('side'));
      const held = ok(await turn.propose('made of the fork'));
      expect([held.status, held.code]).toEqual(['held', 'source_changed']);
    },
    mutants: [
      change(
        'its forks are not kept with a turn',
        'record_session_call',
        'if (p_call.session).parent_id is not null then',
        'if false then',
      ),
    ],
  },
  {
    way: 'a source that the audience does not read is not there',
    async holds({ enter, acme }) {
      const { log } = await enter();
      await acme.conversation('diary', ['ana']);
      await acme.say('diary', 'ana', 'CANARY');
      const sources = [{ conversation: 'diary', seq: '1' }];
      refuses(await log.tryAppend([{ ...said(text('made of it')), sources }]), 'not_found');
    },
    mutants: [
      change(
        'what is not there is left out',
        'write_entry',
        'return stored = jsonb_array_length(p_sources)',
        'return true',
      ),
    ],
  },
  {
    way: 'a read that was not announced does not happen',
    async holds({ enter, gateway }) {
      const { log, turn } = await enter();
      await log.append(said(text('a word')));
      const desk = (await log.open({ name: 'desk' })).handle;
      for (const [namespace, mark] of [
        [undefined, '1'],
        [desk, '0'],
      ] as const) {
        const answer = await directly(gateway, turn, namespace, mark);
        expect(answer.ok ? undefined : answer.code).toBe('conflict');
      }
    },
    mutants: [
      change('the watermark is not asked', 'look', 'place.watermark < p_mark', 'false'),
      change('the claim is not asked', 'look', 'when not place.claimed or', 'when'),
    ],
  },
  {
    way: 'no caller picks an earlier state of a log',
    async holds({ enter, gateway }) {
      const { log, turn } = await enter();
      const [id = ''] = await log.append(said(text('first')));
      ok(await log.edit(id, '1', [text('second')]));
      ok(await log.compile());
      const answer = await directly(gateway, turn, undefined, '1');
      if (!answer.ok) throw new Error(answer.code);
      expect(answer.result.messages.map(({ content }) => content)).toEqual([[text('second')]]);
    },
    mutants: [
      change('it is read as of the mark', 'look', 'mark := place.watermark', 'mark := p_mark'),
    ],
  },
];

/** Reads by the door itself, with a mark of choice. */
function directly(
  { gateway }: LogHouse['gateway'],
  { grant }: TestTurn,
  namespace: string | undefined,
  mark: string,
) {
  const caller = {
    digest: digestOf(decodeJwt(grant.token).jti ?? ''),
    session: grant.sessionId,
    audienceHash: grant.audienceHash,
  };
  return readLog(gateway.database, caller, namespace, 'compile', {}, mark, CompiledLog);
}

/** What an edit may take, and from whom. */
export const NARROWING: readonly Way[] = [
  {
    way: 'what an agent’s own reader may have read is not taken from it',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      refuses(await log.by(writer).edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'the watermark is not asked',
        'edit_log',
        'else n.watermark >= e.change end',
        'else false end',
      ),
      change(
        'no block is taken',
        'narrows',
        "and not earshot.names_readers(a.block -> 'audience', p_readers)",
        'and false',
      ),
    ],
  },
  {
    way: 'what it may have read in an earlier revision is not taken from it',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      ok(await log.by(writer).edit(id, '1', [text('the same secret')]));
      refuses(await log.by(writer).edit(id, '2', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'the last revision alone is asked',
        'edit_log',
        'and e.position = old.pos\n        where',
        'and e.position = old.pos and e.superseded_by is null\n        where',
      ),
    ],
  },
  {
    way: 'nothing is taken from the reader of another namespace, whatever was read',
    async holds({ enter }) {
      const { log } = await enter();
      await place(log, 'ben');
      const [id = ''] = await log.append(said(text('a secret')));
      refuses(await log.edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'its watermark is asked',
        'edit_log',
        'then e.superseded_by is null',
        'then n.watermark >= e.change',
      ),
      change('it is not asked', 'edit_log', 'then e.superseded_by is null', 'then false'),
    ],
  },
  {
    way: 'a fork refuses what it inherited a watermark for',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      const fork = await log.fork('side');
      refuses(await fork.by(writer).edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'it begins with none',
        'fork_log',
        'place.reader, place.watermark,',
        'place.reader, 0,',
      ),
    ],
  },
  {
    way: 'an entry for another reader is not there to be edited',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('CANARY', 'ana')));
      const ben = await place(log, 'ben');
      refuses(await ben.edit(id, '1', [text('x')]), 'not_found');
    },
    mutants: [change('it is', 'edit_log', 'from log_view(', 'from whole_view(')],
  },
  {
    way: 'an edit leaves what it does not see where it was',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('one'), text('of ana', 'ana'), text('two')));
      const [ana, ben] = [await place(log, 'ana'), await place(log, 'ben')];
      ok(await ben.by(writer).edit(id, '1', [text('uno'), text('due')]));
      expect(await ana.texts()).toEqual(['uno', 'of ana', 'due']);
    },
    mutants: [
      change(
        'what is hidden goes',
        'edit_slots',
        'where is_hidden(b.block, p_readers)',
        'where false',
      ),
      change(
        'what is hidden goes to the end',
        'edit_slots',
        'slots[: least(kept - 1, cardinality(slots))] || -kept || slots[least(kept, cardinality(slots) + 1) :]',
        'slots || -kept',
      ),
    ],
  },
  {
    way: 'an edit of a revision that is no longer the last is a conflict',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('first')));
      ok(await log.edit(id, '1', [text('second')]));
      refuses(await log.edit(id, '1', [text('third')]), 'conflict');
    },
    mutants: [
      change('any is taken', 'edit_log', "when old.revision <> p_revision then 'conflict'", ''),
    ],
  },
  {
    way: 'an edit puts no audience on a system entry',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append({ ...said(text('a rule')), role: 'system' });
      refuses(await log.edit(id, '1', [text('a rule', 'ana', 'ben')]), 'invalid_input');
    },
    mutants: [change('it is not looked at', 'edit_log', "old.role = 'system' and", 'false and')],
  },
];

/** Something for ana, read at her place by a turn in one way or another. */
async function shownAna({ enter }: LogHouse, read: (ana: TestLog, id: string) => Promise<Answer>) {
  const entered = await enter();
  const { log, writer } = entered;
  const ana = await place(log, 'ana');
  const [id = ''] = await log.append(said(text('a word of ana', 'ana')));
  ok(await ana.by(writer).pin(id));
  ok(await read(ana, id));
  return { ...entered, ana };
}

async function isHeld(turn: TestTurn): Promise<void> {
  const { status, code } = ok(await turn.propose('an answer'));
  expect([status, code]).toEqual(['held', 'narrowing_refused']);
}

const READS = [
  ['a compile', 'compile_log', (ana: TestLog) => ana.compile()],
  ['a page of entries', 'list_log', (ana: TestLog) => ana.entries()],
  ['a search', 'search_log', (ana: TestLog) => ana.search('word')],
  ['a summary input', 'summary_input', (ana: TestLog, id: string) => ana.summaryInput(id, id)],
  ['a look at the pins', 'pinned_log', (ana: TestLog) => ana.pins()],
] as const;

/** What a turn makes that was shown something for some readers only. */
export const BOUND: readonly Way[] = [
  ...READS.map(([what, routine, read]): Way => ({
    way: `a turn that was shown a block for some readers by ${what} delivers to them alone`,
    holds: async (house) => isHeld((await shownAna(house, read)).turn),
    mutants: [
      change(
        'it is not looked for',
        routine,
        'result.only_for := named_in_all(p_org, p_session, restricted, p_readers)',
        'result.only_for := null',
      ),
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
        ok(await at.by(turn).search('nothing that is there'));
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
    way: 'a turn that was shown blocks for several makes something for those alone who were named in each',
    async holds({ enter }) {
      for (const pages of [1, 2]) {
        const { log, another } = await enter();
        const ben = await place(log, 'ben');
        await log.append(said(text('one', 'ana', 'ben')), said(text('two', 'ben', 'cleo')));
        const limit = (2 / pages).toString();
        const { cursor = '' } = ok(await ben.entries(`limit=${limit}`));
        ok(await ben.entries(`limit=${limit}&after=${cursor}`));
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
        'where not exists (select from unnest(binding) other where not other ? who.name)',
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
      for (const reader of ['ana', 'ben']) ok(await (await place(log, reader)).compile());
      refuses(await log.tryAppend([entry(text('made', 'ben'))]), 'narrowing_refused');
    },
    mutants: [change('the last one counts', 'read_log', 'meet(t0.only_for, binding)', 'binding')],
  },
  {
    way: 'what an agent or a host writes of such blocks names their readers, and no others',
    async holds(house) {
      const { log, ana, writer } = await shownAna(house, (of) => of.compile());
      const [id = ''] = await log.by(writer).append(said(text('said', 'ana')));
      for (const blocks of [[text('made')], [text('made', 'ana', 'ben')]]) {
        refuses(await log.tryAppend([entry(...blocks)]), 'narrowing_refused');
        refuses(await ana.edit(id, '1', blocks), 'narrowing_refused');
      }
      const rule = { ...entry(text('made')), role: 'system' };
      refuses(await log.tryAppend([rule]), 'narrowing_refused');
      ok(await log.tryAppend([entry(text('made', 'ana'))]));
    },
    mutants: [
      change(
        'an append does not ask',
        'append_log',
        "when entry ->> 'role' <> 'user' then judge_blocks(call.live, entry -> 'blocks') end",
        'when true then null end',
      ),
      change(
        'a host is not asked',
        'append_log',
        "entry ->> 'role' <> 'user'",
        "entry ->> 'role' = 'agent'",
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
      const team = await place(log, 'ana-team');
      await log.append(said(text('a word', 'ana-team')));
      ok(await team.compile());
      refuses(await log.tryAppend([entry(text('made'))]), 'narrowing_refused');
      await isHeld(turn);
    },
    mutants: [
      change('a delivery takes it for a person', 'judge_disclosure', "r.kind <> 'user' or", ''),
      change('the log takes it for a person', 'judge_blocks', "r.kind <> 'user' or", ''),
    ],
  },
  {
    way: 'an agent with the id of a person is that person, and a stranger binds as well',
    async holds({ enter }) {
      for (const name of ['ben', 'stranger']) {
        const { log, turn } = await enter();
        const agent = name === 'ben' ? { agent: 'ben' } : {};
        const { handle } = await log.open({ name: 'twin', reader: name, ...agent });
        await log.append(said(text('a word', name)));
        ok(await log.through(handle).compile());
        await isHeld(turn);
      }
    },
    mutants: [
      change(
        'the agent counts',
        'named_in_all',
        'exists (select from users u where u.org_id = p_org and u.external_id = who.name)',
        'false',
      ),
      change(
        'a stranger does not count',
        'named_in_all',
        'or not exists (select from agents g where g.org_id = p_org and g.session_id = p_session and g.name = who.name)',
        '',
      ),
    ],
  },
];

async function handleOf(log: TestLog): Promise<string> {
  const [own] = ok(await log.describe()).namespaces;
  return own?.handle ?? '';
}
