import { expect } from 'vitest';
import type { Answer, TestGateway } from '../support/gateway.ts';
import type { Messages, TestOrganization, TestTurn } from '../support/organization.ts';

/** One audience with a turn, and a word that only it may read. */
export interface Side {
  readonly org: TestOrganization;
  readonly thread: string;
  readonly source: string;
  readonly turn: TestTurn;
  readonly canary: string;
  /** The texts in its source, in order. */
  readonly said: string[];
}

/** A tool call that any side may make, and what its answer says of that side. */
export const TOOLS = [
  ['search', () => ({ query: 'bird', limit: 100 })],
  ['read', ({ source }: Side) => ({ conversation: source, limit: 100 })],
  ['list_conversations', () => ({ limit: 100 })],
  ['around', ({ source }: Side) => ({ conversation: source, seq: '1' })],
] as const;

/** Three audiences in each of two organizations, the requester in each of them, under the same names. */
export async function buildSides(
  gateway: Pick<TestGateway, 'organization'>,
): Promise<readonly Side[]> {
  const sides: Side[] = [];
  for (const org of [await gateway.organization(), await gateway.organization()]) {
    await org.users('ana', 'ben', 'cleo', 'dan');
    for (const reader of ['ben', 'cleo', 'dan']) {
      const [thread, source] = [`thread-${reader}`, `source-${reader}`];
      const canary = `canary${String(sides.length)}x`;
      await org.conversation(thread, ['ana', reader], { aiThread: true });
      await org.conversation(source, ['ana', reader]);
      const said = [`the bird is ${canary}`];
      await org.say(source, reader, said[0] ?? '');
      await org.say(thread, 'ana', 'ask');
      const turn = await org.turn({ destination: thread, requester: 'ana', trigger: '1' });
      sides.push({ org, thread, source, turn, canary, said });
    }
  }
  return sides;
}

/** That a successful answer is this side's, whole, and no other one's. */
export function expectOwn(
  side: Side,
  sides: readonly Side[],
  tool: string,
  { body }: Answer,
): void {
  const text = JSON.stringify(body);
  for (const { canary } of sides) if (canary !== side.canary) expect(text).not.toContain(canary);
  const { items } = body as Messages;
  if (tool === 'search' || tool === 'read') {
    expect(items.map((item) => item.text).sort()).toEqual([...side.said].sort());
  } else if (tool === 'around') {
    expect(items[0]?.text).toBe(side.said[0]);
  } else {
    const names = (body as { items: { conversation: string }[] }).items.map(
      (item) => item.conversation,
    );
    expect(names.sort()).toEqual([side.source, side.thread].sort());
  }
}
