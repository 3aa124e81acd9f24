import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import { readOf, textsFor, writeTo } from './addressing.ts';
import { change, refuses, type Entered, type Way } from './log-house.ts';
import { note } from './summary-house.ts';

/** A turn that is alive and was sent something of a log. */
export async function alive({ another }: Entered, of: TestLog) {
  const turn = await another();
  ok(await of.by(turn).compile());
  return turn;
}

async function helperIn(log: TestLog): Promise<TestLog> {
  return log.through((await log.open({ name: 'desk', agent: 'helper' })).handle);
}

export const writtenTo = async (log: TestLog, agent: string, ...bodies: string[]) =>
  ok(await writeTo(log, agent, ...(bodies.map((body) => entry(text(body))) as [object])));

/** Where an agent is found, and what is held for it. */
export const ADDRESSED: readonly Way[] = [
  {
    way: 'an agent is found in this log, in an open fork of it, and in the one that the forks began with',
    async holds(house) {
      const { log } = await house.enter();
      const fork = await log.fork('side');
      const deep = await fork.fork('deep');
      const gone = await log.fork('gone');
      await fork.open({ name: 'inside', agent: 'within' });
      ok(await gone.close());
      const strange = await (await house.enter()).log.fork('strange');
      ok(await strange.compile());
      for (const name of ['deep', 'gone', 'within', 'strange'])
        refuses(await writeTo(log, name, entry(text('lost'))), 'not_found');
      for (const name of ['gone', 'strange'])
        refuses(await writeTo(fork, name, entry(text('lost'))), 'not_found');
      for (const [from, name] of [
        [log, 'side'],
        [fork, 'within'],
        [fork, 'deep'],
        [deep, 'resident'],
      ] as const)
        expect((await writeTo(from, name, entry(text('found')))).code).toBeUndefined();
    },
    mutants: [
      change(
        'forks of others are found',
        'find_agent',
        's.parent_id = p_session and s.state',
        's.parent_id is not null and s.state',
      ),
      change('closed ones are found', 'find_agent', "and s.state = 'open'", ''),
      change(
        'all who stand in a fork are found',
        'find_agent',
        "and (l.rank <> 2 or a.kind = 'fork')",
        '',
      ),
      change(
        'the log that the forks began with is not',
        'find_agent',
        'where (call.session).root_id <> p_session',
        'where false',
      ),
    ],
  },
  {
    way: 'of several agents of one name the nearest is found',
    async holds({ enter }) {
      const { log } = await enter();
      const fork = await log.fork('side');
      for (const at of [log, fork]) await helperIn(at);
      await writtenTo(fork, 'helper', 'to the nearest');
      expect(await textsFor(fork, 'helper')).toEqual(['to the nearest']);
      expect(await textsFor(log, 'helper')).toEqual([]);
    },
    mutants: [
      change(
        'the farthest is',
        'find_agent',
        'order by n.rank limit 1',
        'order by n.rank desc limit 1',
      ),
    ],
  },
  {
    way: 'what is written to a sub-agent is for its eyes alone, also once it has waited',
    async holds(house) {
      for (const waits of [false, true]) {
        const entered = await house.enter();
        const { log } = entered;
        const desk = await helperIn(log);
        const turn = waits ? await alive(entered, desk) : undefined;
        expect((await writtenTo(log, 'helper', 'CANARY')).held ?? false).toBe(waits);
        await turn?.end('complete');
        expect(await textsFor(log, 'helper')).toEqual(['CANARY']);
        expect(await log.texts()).toEqual([]);
        expect(ok(await log.entries()).entries).toEqual([]);
      }
    },
    mutants: [
      change(
        'it is for all',
        'append_log',
        "case when a.kind = 'sub_agent' then a.name end",
        'null',
      ),
      change(
        'every agent sees it',
        'log_view',
        '(e.addressee is null or e.addressee = p_agent)',
        'true',
      ),
      change(
        'it is for all once it has waited',
        'deliver_mail',
        'mail.addressee, mail.passes',
        'null, mail.passes',
      ),
    ],
  },
  {
    way: 'what is written to an agent waits for its own turns, and comes in the order in which it was written',
    async holds(house) {
      const entered = await house.enter();
      const { log } = entered;
      const [ofHelper, ofResident] = [
        await alive(entered, await helperIn(log)),
        await alive(entered, log),
      ];
      for (const body of ['one', 'two', 'three'])
        expect((await writtenTo(log, 'helper', body)).held).toBe(true);
      expect(await textsFor(log, 'helper')).toEqual([]);
      ok(await ofHelper.end('complete'));
      expect(await textsFor(log, 'helper')).toEqual(['one', 'two', 'three']);
      expect((await writtenTo(log, 'resident', 'four')).held).toBe(true);
      ok(await ofResident.end('complete'));
    },
    mutants: [
      change(
        'it does not wait',
        'append_log',
        'held := p_agent is not null and exists (',
        'held := false and exists (',
      ),
      change(
        'the next read lets it in',
        'deliver_mail',
        'and not exists (select from live_places(p_org, p_session, p_now) l where l.agent = m.agent)',
        '',
      ),
      change(
        'it waits for every agent’s turns',
        'deliver_mail',
        'l where l.agent = m.agent)',
        'l where true)',
      ),
      change(
        'the last one comes first',
        'deliver_mail',
        'order by m.number',
        'order by m.number desc',
      ),
    ],
  },
  {
    way: 'what waits came from what the audience reads, is answered for at once, and told with it',
    async holds(house) {
      const entered = await house.enter();
      const { log, writer } = entered;
      const turn = await alive(entered, log);
      await house.acme.conversation('diary', ['ana']);
      await house.acme.say('diary', 'ana', 'CANARY');
      const own = await note(house);
      const from = (...sources: object[]) => ({ ...entry(text('made of it')), sources });
      const foreign = { conversation: 'diary', seq: '1' };
      refuses(await writeTo(log, 'resident', from(own.source, foreign)), 'not_found');
      expect(ok(await writeTo(log, 'resident', from(own.source))).held).toBe(true);
      ok(await turn.end('complete'));
      const [arrived] = ok(await readOf(log, 'resident')).entries;
      expect(arrived?.sources).toMatchObject([own.source]);
      await alive(entered, log);
      const later = await note(house);
      expect(ok(await writeTo(log, 'resident', from(later.source))).held).toBe(true);
      await later.remove();
      refuses(await log.by(writer).entries(), 'source_revoked');
    },
    mutants: [
      change(
        'what is not there is left out',
        'hold_entry',
        'jsonb_array_length(resolved) <> jsonb_array_length(named)',
        'false',
      ),
      change('the ledger does not get it', 'append_log', 'm.id = any (append_log.ids)', 'false'),
      change(
        'it comes without',
        'deliver_mail',
        'from jsonb_to_recordset(mail.sources)',
        "from jsonb_to_recordset('[]'::jsonb)",
      ),
    ],
  },
  {
    way: 'a replay form of what waits is that entry’s own, and stays so',
    async holds(house) {
      const entered = await house.enter();
      const { log } = entered;
      const form = (id: string) => ({ ...text('said'), replay: { id, provider: 'lab', value: 1 } });
      await log.append(entry(form('taken')));
      const turn = await alive(entered, log);
      refuses(await writeTo(log, 'resident', entry(form('taken'))), 'conflict');
      const { ids } = ok(await writeTo(log, 'resident', entry(form('own'))));
      refuses(await log.tryAppend([entry(form('own'))]), 'conflict');
      ok(await turn.end('complete'));
      expect(await log.texts()).toEqual(['said', 'said']);
      expect((await log.edit(ids[0] ?? '', '1', [form('own')])).code).toBeUndefined();
    },
    mutants: [
      change('it may be another’s', 'hold_mail', 'and r.position <> -number', 'and false'),
      change(
        'it may be taken while it waits',
        'hold_mail',
        'from unnest(replays) x on conflict',
        'from unnest(replays) x where false on conflict',
      ),
      change('it is nobody’s once it came', 'deliver_mail', 'r.position = -mail.number', 'false'),
    ],
  },
];
