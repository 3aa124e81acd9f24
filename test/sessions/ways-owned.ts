import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { logOf, text, type TestLog } from '../support/log.ts';
import { change, changeSource, placeOf, refuses, said, type Way } from './log-house.ts';

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

/** A handle from before ana claimed its namespace, and the place that she claimed. */
async function claimed(log: TestLog) {
  const before = (await log.open({ name: 'desk' })).handle;
  const ana = await placeOf(log, 'ana', 'desk');
  return { before, stale: log.through(before), ana };
}
