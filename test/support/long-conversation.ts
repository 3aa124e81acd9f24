import type { Fact } from '../../policy/fact.ts';
import { externalId } from '../../policy/identity.ts';
import { parseInstant } from '../../policy/instant.ts';

export const LONG = externalId('long');
export const LONG_MESSAGES = 1300;

/** A staged conversation of more messages than one batch takes, with a reader from the first and one from the 1,000th. */
export function longConversation(): Fact[] {
  const start = parseInstant('2026-01-01T00:00:00Z') ?? 0n;
  const at = (place: number) => start + BigInt(place) * 1_000_000n;
  const [ann, ben] = ['ann', 'ben'].map(externalId) as [
    ReturnType<typeof externalId>,
    ReturnType<typeof externalId>,
  ];
  return [
    ...[ann, ben].map((id): Fact => ({ fact: 'user', id, kind: 'member', status: 'active' })),
    {
      fact: 'conversation',
      id: LONG,
      kind: 'channel',
      visibility: 'members',
      aiThread: false,
      externalReaders: false,
      archived: false,
      staged: true,
    },
    ...Array.from({ length: LONG_MESSAGES }, (_, index): Fact => ({
      fact: 'message',
      conversation: LONG,
      id: externalId(`m${index + 1}`),
      kind: 'message',
      author: { user: ann },
      body: `canary ${index + 1}`,
      sentAt: at(index + 1),
    })),
    {
      fact: 'members',
      conversation: LONG,
      members: [
        { user: ann, history: 'all' },
        { user: ben, history: { fromTime: at(1000) } },
      ],
    },
    { fact: 'open', conversation: LONG },
  ];
}
