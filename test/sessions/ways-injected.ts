import { expect } from 'vitest';
import { contentHash } from '../../sessions/compile/content-hash.ts';
import { ok } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import { writeTo } from './addressing.ts';
import { unit } from './injection-house.ts';
import { change, placeOf, refuses, said, type LogHouse, type Way } from './log-house.ts';
import { note } from './summary-house.ts';

type Units = Parameters<TestLog['inject']>;

const inject = async (log: TestLog, ...units: Units) => ok(await log.inject(...units)).outcomes;

/** What became of units that are given one after the other. */
async function oneByOne(log: TestLog, ...units: Units): Promise<string[]> {
  const outcomes: string[] = [];
  for (const one of units) outcomes.push(...(await inject(log, one)));
  return outcomes;
}

/** Another agent, of which a turn is alive that was sent something of the log. */
async function occupied({ enter }: LogHouse) {
  const entered = await enter();
  const other = await entered.another();
  const { handle } = await entered.log.open({ name: 'desk', agent: 'helper' });
  ok(await entered.log.by(other).through(handle).compile());
  return { ...entered, other };
}

const words = unit('wiki', 'words');
const others = unit('wiki', 'others');

/** When a unit is stored. */
export const INJECTED: readonly Way[] = [
  {
    way: 'a unit is stored once until it is sent, and as long as what is sent holds it',
    async holds({ enter }) {
      const { log } = await enter();
      expect(await oneByOne(log, words, words)).toEqual(['stored', 'unchanged']);
      for (let times = 0; times < 2; times++) {
        expect(ok(await log.compile()).stats.injections).toBe(1);
        expect(await inject(log, words)).toEqual(['unchanged']);
      }
    },
    mutants: [
      change(
        'what is not sent yet is stored again',
        'judge_units',
        'newest.change > coalesce(sent.mark, 0) or',
        '',
      ),
      change('what was sent is stored again', 'judge_units', 'or newest.id = any (sent.held)', ''),
      change(
        'it is stored whatever is said of it',
        'store_injections',
        "continue when verdicts[nth] <> 'store'",
        'continue when false',
      ),
      change('what was sent is not kept', 'send_log', 'e.id = any (p_held)', 'false'),
    ],
  },
  {
    way: 'a unit that was sent under a summary, or not at all, is stored again',
    async holds({ enter }) {
      const { log } = await enter();
      const [first = ''] = await log.append(said(text('a word '.repeat(60))));
      expect(await inject(log, words)).toEqual(['stored']);
      const { provenance } = ok(await log.compile());
      await log.summarize({ from: first, to: provenance[1]?.entry ?? '' }, 'short');
      expect(ok(await log.compile()).stats).toMatchObject({ summaries: 1, injections: 0 });
      expect(await inject(log, words)).toEqual(['stored']);
    },
    mutants: [
      change(
        'it is not',
        'judge_units',
        'newest.id = any (sent.held)',
        'newest.change <= sent.mark',
      ),
    ],
  },
  {
    way: 'a unit is known by its newest copy, from its own source, in its own place',
    async holds({ enter }) {
      const { log } = await enter();
      const elsewhere = unit('mail', 'words');
      const outcomes = await oneByOne(log, others, elsewhere, words, words, others);
      expect(outcomes).toEqual(['stored', 'stored', 'stored', 'unchanged', 'stored']);
      expect(await oneByOne(await placeOf(log, 'ana'), others, words)).toEqual([
        'stored',
        'stored',
      ]);
    },
    mutants: [
      change(
        'the first copy counts',
        'judge_units',
        'order by e.position desc limit 1',
        'order by e.position limit 1',
      ),
      change(
        'that of any source counts',
        'judge_units',
        "and e.injection = u.unit ->> 'source'\n      order by",
        'and e.injection is not null\n      order by',
      ),
      change(
        'that in any place counts',
        'judge_units',
        "and e.owner = p_place.name and e.injection = u.unit ->> 'source'\n      order by",
        "and e.injection = u.unit ->> 'source'\n      order by",
      ),
    ],
  },
  {
    way: 'a unit is known by its content, and not by a hash alone',
    async holds({ enter, gateway }) {
      const { log } = await enter();
      expect(await inject(log, words)).toEqual(['stored']);
      const hash = contentHash(JSON.stringify([{ text: 'others', type: 'text' }]));
      await gateway.owner`
        update earshot.log_entries set content_hash = decode(${hash}, 'hex')
        where session_id = ${log.session}`;
      expect(await inject(log, others)).toEqual(['stored']);
    },
    mutants: [change('it is', 'judge_units', "and newest.blocks = u.unit -> 'blocks'", '')],
  },
  {
    way: 'what was sent last is what was sent through the same place',
    async holds({ enter }) {
      const { log } = await enter();
      const ana = await placeOf(log, 'ana');
      expect(await inject(ana, words)).toEqual(['stored']);
      ok(await ana.compile());
      ok(await log.compile());
      expect(await inject(ana, words)).toEqual(['unchanged']);
    },
    mutants: [
      change(
        'it is what the default one was sent',
        'judge_units',
        'sent.namespace = p_place.name',
        "sent.namespace = 'default'",
      ),
    ],
  },
  {
    way: 'nothing is stored while another agent’s turn is alive, and again once it has ended',
    async holds(house) {
      for (const end of ['complete', 'expire'] as const) {
        const { log, other } = await occupied(house);
        expect(await inject(log, words)).toEqual(['held']);
        if (end === 'complete') ok(await other.end('complete'));
        else
          await house.gateway.owner`
            update earshot.turns set expires_at = clock_timestamp() where id = ${other.id}`;
        expect(await inject(log, words)).toEqual(['stored']);
      }
    },
    mutants: [
      change('it is stored all the same', 'judge_units', "when occupied then 'held'", ''),
      change('a turn is alive for ever', 'live_places', "and t.state = 'running'", ''),
      change('it is alive until somebody ends it', 'live_places', 'and t.expires_at > p_now', ''),
    ],
  },
  {
    way: 'neither another turn of the same agent holds the log, nor the same turn as another agent',
    async holds({ enter }) {
      const { log, another } = await enter();
      ok(await log.by(await another()).compile());
      const { handle } = await log.open({ name: 'desk', agent: 'helper' });
      ok(await log.through(handle).compile());
      expect(await inject(log, words)).toEqual(['stored']);
    },
    mutants: [
      change('another turn does', 'judge_units', 'l.agent <> p_place.agent and', ''),
      change('another agent does', 'judge_units', 'and l.turn_id <> p_live.turn_id', ''),
    ],
  },
  {
    way: 'what a source may store is bound by turn, and by source',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const large = (source: string, sign: string) => unit(source, sign.repeat(90_000));
      const outcomes = await oneByOne(
        log,
        ...[large('wiki', 'a'), large('wiki', 'b'), large('wiki', 'c'), large('mail', 'a')],
      );
      expect(outcomes).toEqual(['stored', 'stored', 'bound', 'stored']);
      expect(await inject(log.by(writer), large('wiki', 'c'))).toEqual(['stored']);
    },
    mutants: [
      change(
        'there is no bound',
        'judge_units',
        "> p_most then 'bound'",
        "> p_most * 9 then 'bound'",
      ),
      change(
        'what is there does not count',
        'judge_units',
        'select sum(e.bytes)',
        'select 0 * sum(e.bytes)',
      ),
      change(
        'what every source stored counts',
        'judge_units',
        "and e.injection = u.unit ->> 'source' and e.turn_id",
        'and e.turn_id',
      ),
      change('what every turn stored counts', 'judge_units', 'and e.turn_id = p_live.turn_id', ''),
    ],
  },
];

/** Who sees what was stored, and what it binds and is answered for. */
export const INJECTION_KEPT: readonly Way[] = [
  {
    way: 'what is injected is shown at its place alone, in what a model is sent, and goes into no fork',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append(said(text('a word')));
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
      expect(await inject(ana, unit('wiki', 'CANARY word'))).toEqual(['stored']);
      expect(await ana.texts()).toEqual(['a word', 'CANARY word']);
      for (const at of [log, ben, await ana.fork('side')]) {
        expect(await at.texts()).toEqual(['a word']);
        expect(ok(await at.entries()).entries).toHaveLength(1);
      }
      expect(ok(await ana.search('canary')).total).toBe('0');
      expect(ok(await ana.entries()).entries).toHaveLength(1);
      expect(ok(await ana.describe()).entries).toBe('1');
    },
    mutants: [
      change('every place shows it', 'log_view', '(e.owner is null or e.owner = p_owner)', 'true'),
      change(
        'it is the default one’s',
        'store_injections',
        "unit ->> 'source', place.name, decode",
        "unit ->> 'source', 'default', decode",
      ),
      change(
        'a fork begins with it',
        'fork_log',
        'readers, place.agent, null) v\n      join log_entries e on',
        'readers, place.agent, place.name) v\n      join log_entries e on',
      ),
      change(
        'a search finds it',
        'search_log',
        'p_place.agent, null) l offset 0',
        'p_place.agent, p_place.name) l offset 0',
      ),
      change(
        'a page of entries has it',
        'list_log',
        'p_place.agent, null) x where',
        'p_place.agent, p_place.name) x where',
      ),
      change(
        'a description counts it',
        'describe_log',
        'p_place.agent, null) v',
        'p_place.agent, p_place.name) v',
      ),
    ],
  },
  {
    way: 'what is injected came from what the audience reads, and is answered for',
    async holds(house) {
      const { log } = await house.enter();
      await house.acme.conversation('diary', ['ana']);
      await house.acme.say('diary', 'ana', 'CANARY');
      const from = (...sources: { conversation: string; seq: string }[]) => ({
        ...{ source: 'wiki', parts: [{ text: 'words', sources }] },
      });
      const own = await note(house);
      refuses(await log.inject(from(own.source, { conversation: 'diary', seq: '1' })), 'not_found');
      expect(await inject(log, from(own.source))).toEqual(['stored']);
      await own.remove();
      refuses(await log.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'the ledger does not get it',
        'store_injections',
        'perform note_sources(org, p_session, head.position + 1, head.position + stored, 1, pending);',
        '',
      ),
      change(
        'what is not there is left out',
        'write_entry',
        'stored <> jsonb_array_length(p_sources)',
        'false',
      ),
    ],
  },
  {
    way: 'what the same words came from this time is answered for as well',
    async holds(house) {
      const { log } = await house.enter();
      await house.acme.conversation('diary', ['ana']);
      await house.acme.say('diary', 'ana', 'CANARY');
      const from = (...sources: { conversation: string; seq: string }[]) => ({
        ...{ source: 'wiki', parts: [{ text: 'words', sources }] },
      });
      const later = await note(house);
      expect(await inject(log, from())).toEqual(['stored']);
      refuses(await log.inject(from({ conversation: 'diary', seq: '1' })), 'not_found');
      expect(await inject(log, from(later.source))).toEqual(['unchanged']);
      await later.remove();
      refuses(await log.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'it is not looked at',
        'store_injections',
        'perform note_unchanged(call.live, p_session, p_units, verdicts, pending, t);',
        '',
      ),
      change(
        'what is not there is left out',
        'note_unchanged',
        'if (select count(*) from entry_sources(p_live, unbound, p_now)) <> jsonb_array_length(unbound) then',
        'if false then',
      ),
      change(
        'the ledger does not get it',
        'note_unchanged',
        'from entry_sources(p_live, unbound, p_now) f',
        'from entry_sources(p_live, unbound, p_now) f where false',
      ),
    ],
  },
  {
    way: 'a turn that was shown something for ana injects where she alone reads, and that binds',
    async holds({ enter }) {
      const { log, another } = await enter();
      const [ana, second] = [await placeOf(log, 'ana'), await placeOf(log, 'ana', 'second')];
      await log.append(said(text('of ana', 'ana')));
      ok(await ana.compile());
      refuses(await log.inject(words), 'narrowing_refused');
      refuses(await log.preview({ injections: [words] }), 'narrowing_refused');
      expect(await inject(second, words)).toEqual(['stored']);
      const later = await another();
      ok(await second.by(later).summaries());
      expect(ok(await later.propose('an answer')).code).toBe('narrowing_refused');
    },
    mutants: [
      change(
        'it is not asked',
        'store_injections',
        'else judge_place(call.live, place) end',
        'end',
      ),
      change(
        'a preview does not ask',
        'compile_log',
        'then judge_place(p_live, p_place) end',
        'then null end',
      ),
      change('it does not bind', 'store_injections', 'perform bind_place(call.live, place);', ''),
    ],
  },
  {
    way: 'what waits for the agent comes before what is injected at its start',
    async holds({ enter }) {
      const { log, another } = await enter();
      const alive = await another();
      ok(await log.by(alive).compile());
      expect(ok(await writeTo(log, 'resident', said(text('mail')))).held).toBe(true);
      ok(await alive.end('complete'));
      expect(await inject(log, words)).toEqual(['stored']);
      expect(await log.texts()).toEqual(['mail', 'words']);
    },
    mutants: [
      change('it comes later', 'store_injections', 'perform deliver_mail(org, p_session, t);', ''),
    ],
  },
];
