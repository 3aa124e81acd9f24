import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

// Answers that are made of answers, while those are released, ingested and reported in any order.
test('a delivery has the sources of whatever among them came out of a delivery, whoever was first', async () => {
  const acme = await gateway.organization();
  const threads = ['one', 'two', 'three'];
  await acme.users('ana', 'ben');
  for (const thread of threads) {
    await acme.conversation(thread, ['ana', 'ben'], { aiThread: true });
    await acme.conversation(`source of ${thread}`, ['ana', 'ben']);
    await acme.say(`source of ${thread}`, 'ben', `canary of ${thread}`);
    await acme.say(thread, 'ana', 'what sang');
  }
  const answers: unknown[] = [];
  const carry = async (thread: string, round: number) => {
    const threadKey = `${thread} ${round.toString()}`;
    const turn = await acme.turn({
      destination: thread,
      requester: 'ana',
      trigger: '1',
      threadKey,
    });
    const [place = ''] = threads.filter((other) => other !== thread).slice(round % 2);
    const first = await turn.tool('read', { conversation: `source of ${thread}` });
    const [proposal, second] = await Promise.all([
      turn.propose(`canary ${threadKey}`),
      turn.tool('read', { conversation: place, limit: 50 }),
      turn.tool('search', { query: 'canary', limit: 50 }),
    ]);
    answers.push(
      first.code && `first ${first.code}`,
      second.code && `second ${second.code}`,
      proposal.code && `proposal ${proposal.code}`,
    );
    const delivery = proposal.body;
    if (delivery.status !== 'cleared') return;
    const [released] = await Promise.all([
      acme.release(delivery),
      acme.put(`conversations/${thread}/messages/answer-${round.toString()}`, {
        author: { user: 'ben' },
        body: `canary ${threadKey}`,
        sentAt: '2050-01-01T00:00:00Z',
      }),
    ]);
    answers.push(released.code && `released ${released.code}`);
    if (released.status !== 200) return;
    const report = await acme.acknowledge(delivery, 'delivered', `answer-${round.toString()}`);
    answers.push(report.code && `report ${report.code}`);
  };
  await Promise.all(
    threads.map(async (thread) => {
      for (let round = 0; round < 12; round += 2) {
        await Promise.all([carry(thread, round), carry(thread, round + 1)]);
      }
    }),
  );

  expect(new Set(answers)).toEqual(new Set([undefined]));
  const missing = await gateway.owner`
    select d.derived_id, s.conversation_id, s.from_seq
    from earshot.lineage d
    join earshot.messages m on m.org_id = d.org_id and m.conversation_id = d.conversation_id and m.seq = d.from_seq
    join earshot.lineage s on s.org_id = d.org_id and s.derived_id = m.delivery_id
    where d.to_seq is not null and not exists (
      select from earshot.lineage h
      where h.org_id = d.org_id and h.derived_id = d.derived_id and h.conversation_id = s.conversation_id
        and h.from_seq = s.from_seq and h.to_seq is not distinct from s.to_seq)`;
  expect(missing).toEqual([]);
  const [linked] = await gateway.owner<{ n: number }[]>`
    select count(*)::integer as n from earshot.lineage d
    join earshot.messages m on m.org_id = d.org_id and m.conversation_id = d.conversation_id and m.seq = d.from_seq
    where m.delivery_id is not null and d.to_seq is not null and m.delivery_id <> d.derived_id`;
  expect(linked?.n).toBeGreaterThan(10);
});
