import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { entry, text } from '../support/log.ts';
import { textsFor, writeTo } from './addressing.ts';
import { change, changeSource, placeOf, refuses, said, type Way } from './log-house.ts';
import { note } from './summary-house.ts';
import { alive, writtenTo } from './ways-addressed.ts';

/** What was written to the agent of a fork, when the fork is closed. */
export const HANDED_ON: readonly Way[] = [
  {
    way: 'a fork that is closed hands on what was written to its agent and no model was sent, in its order',
    async holds(house) {
      const entered = await house.enter();
      const { log } = entered;
      await log.append(entry(text('from before')));
      const fork = await log.fork('side');
      await writtenTo(log, 'side', 'sent');
      await fork.append(entry(text('its own')));
      ok(await fork.compile());
      await entered.turn.end('complete');
      const later = await entered.another();
      const [root, side] = [log.by(later), fork.by(later)];
      await writtenTo(root, 'side', 'one');
      await alive(entered, fork);
      // What that turn was sent is not handed on either.
      for (const body of ['two', 'three'])
        expect((await writtenTo(root, 'side', body)).held).toBe(true);
      ok(await side.close());
      expect(await root.texts()).toEqual(['from before', 'two', 'three']);
    },
    mutants: [
      change(
        'it does not',
        'close_session',
        'perform hand_on(call.live, member, (call.session).root_id, pending, t);',
        '',
      ),
      change('what was sent goes on', 'hand_on', 'and e.position <> all (sent)', ''),
      change('what waits is lost', 'hand_on', 'm.session_id = p_fork and m.passes', 'false'),
      change(
        'the last comes first',
        'hand_on',
        'order by f.position, f.number',
        'order by f.position, f.number desc',
      ),
    ],
  },
  {
    way: 'a fork that is closed hands on nothing that was not written to its agent',
    async holds({ enter }) {
      const { log } = await enter();
      const fork = await log.fork('side');
      await fork.append(entry(text('its own')));
      await writtenTo(log, 'side', 'to its agent');
      ok(await fork.close());
      expect(await log.texts()).toEqual(['to its agent']);
    },
    mutants: [
      change(
        'all of it goes on',
        'hand_on',
        'e.session_id = p_fork and e.passes and',
        'e.session_id = p_fork and',
      ),
      change(
        'nothing does',
        'append_log',
        '(call.session).parent_id is not null into addressee',
        'false into addressee',
      ),
    ],
  },
  {
    way: 'what waited in a fork and came there goes on as well, if no model was sent it',
    async holds(house) {
      const entered = await house.enter();
      const { log } = entered;
      const fork = await log.fork('side');
      const turn = await alive(entered, fork);
      expect((await writtenTo(log, 'side', 'late')).held).toBe(true);
      ok(await turn.end('complete'));
      expect(await textsFor(log, 'side')).toEqual(['late']);
      ok(await fork.close());
      expect(await log.texts()).toEqual(['late']);
    },
    mutants: [
      change(
        'it has forgotten',
        'deliver_mail',
        'mail.addressee, mail.passes, mail',
        'mail.addressee, false, mail',
      ),
    ],
  },
  {
    way: 'a fork whose own sources do not stand hands on nothing',
    async holds(house) {
      const { log } = await house.enter();
      const fork = await log.fork('side');
      await writtenTo(log, 'side', 'CANARY');
      await changeSource(house, fork);
      ok(await fork.close());
      expect((await log.compile()).body).toMatchObject({ messages: [] });
    },
    mutants: [
      change(
        'they are not asked',
        'hand_on',
        'if judge_ledger(p_live, p_fork, p_now) is not null then',
        'if false then',
      ),
    ],
  },
  {
    way: 'what is handed on is answered for where it goes',
    async holds(house) {
      const { log } = await house.enter();
      await log.fork('side');
      const own = await note(house);
      const made = { ...entry(text('made of it')), sources: [own.source] };
      ok(await writeTo(log, 'side', made));
      ok(await (await log.fork('side')).close());
      expect(await log.texts()).toEqual(['made of it']);
      await own.remove();
      refuses(await log.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'the ledger there does not get it',
        'hand_on',
        'perform join_ledgers(org, p_root, array[p_fork], p_decision);',
        'null;',
      ),
    ],
  },
  {
    way: 'a fork for one reader hands on only what says for itself that it is for some',
    async holds({ enter }) {
      const { log } = await enter();
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
      await ana.fork('side');
      for (const blocks of [
        [text('CANARY')],
        [text('CANARY'), text('of ana', 'ana')],
        [text('of ana', 'ana')],
      ])
        ok(await writeTo(log, 'side', said(...blocks)));
      ok(await (await ana.fork('side')).close());
      expect(await ana.texts()).toEqual(['of ana']);
      for (const at of [log, ben]) expect(await at.texts()).toEqual([]);
    },
    mutants: [
      change(
        'all of it goes on',
        'hand_on',
        'where not private or not exists',
        'where true or not exists',
      ),
    ],
  },
];
