import { isStale, sensitivityOf } from '../../policy/artifact.ts';
import { compareUtf8, type ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import type { RefusalCode } from '../../policy/refusal.ts';
import { NOBODY } from './differential.ts';
import type { Answer, DoorTurn } from './door.ts';
import { plainScope, plainVisible } from './plain-standing.ts';
import { NOW, pick, textOf, WORDS, type TestArtifact, type TestText } from './world-generator.ts';

/** A tool call with what the plain filter answers. */
export interface Call {
  readonly tool: 'search' | 'read' | 'around' | 'thread' | 'list_conversations';
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly expected: Expectation;
}

export interface Expectation {
  readonly code: RefusalCode | null;
  readonly items: readonly Readonly<Record<string, unknown>>[];
  readonly more: boolean;
  readonly total?: { readonly messages: string; readonly complete: boolean };
}

const NOT_FOUND: Expectation = { code: 'not_found', items: [], more: false };
const all = (items: Expectation['items']): Expectation => ({ code: null, items, more: false });

/** Of what is seen, what no artifact is: those are found by a search, or read by their ids. */
const messagesOf = ({ seen }: DoorTurn) => seen.filter(({ artifact }) => artifact === undefined);
const artifactsOf = ({ seen }: DoorTurn) => seen.filter(({ artifact }) => artifact !== undefined);

/** Calls of two kinds of tool within one grant, those that name what is out of scope among them. */
export function firstCalls(turn: DoorTurn): Call[] {
  const kinds = [searchCalls, listCalls, readCalls, nearCalls];
  const first = pick(turn.world.picks, 1);
  const second = first + 1 + (pick(turn.world.picks, 2) % (kinds.length - 1));
  return [first, second].flatMap((kind) => pick(kinds, kind)(turn));
}

function listCalls(turn: DoorTurn): Call[] {
  const tool = 'list_conversations';
  const items = listItems(turn);
  const narrowed = narrowedBy(
    turn,
    pick([...turn.world.users.keys(), NOBODY], pick(turn.world.picks, 3)),
  );
  return [
    { tool, arguments: { limit: 100 }, expected: all(items) },
    {
      tool,
      arguments: { limit: 100, recipient: narrowed.recipient },
      expected: all(listItems(narrowed.turn)),
    },
    ...[undefined, ...items].map((after, i): Call => {
      const cursor = after === undefined ? {} : { after: { conversation: after.conversation } };
      const expected = { code: null, items: items.slice(i, i + 1), more: i + 1 < items.length };
      return { tool, arguments: { limit: 1, ...cursor }, expected };
    }),
  ];
}

function listItems(turn: DoorTurn) {
  const { world, scope } = turn;
  return [...scope]
    .sort(([a], [b]) => compareUtf8(a, b))
    .map(([id, floor]) => {
      const conversation = world.conversations.get(id);
      const messages = messagesOf(turn).filter((message) => message.conversation === id);
      const latest = messages.map(({ sentAt }) => sentAt).sort((a, b) => (a < b ? 1 : -1))[0];
      return {
        conversation: id,
        title: world.titles.get(id),
        kind: conversation?.kind,
        visibility: conversation?.visibility,
        fromSeq: String(floor),
        owner: conversation?.owner,
        messages: String(messages.length),
        latestAt: latest === undefined ? undefined : formatInstant(latest),
      };
    });
}

function readCalls(turn: DoorTurn): Call[] {
  const { world, scope, turn: asked } = turn;
  const elsewhere = [...scope.keys()].filter((id) => id !== asked.destination.id);
  const outside = [...world.conversations.keys()].filter((id) => !scope.has(id));
  const readable = [asked.destination.id, ...elsewhere.slice(0, 1)].flatMap((conversation) =>
    pagesOf(turn, conversation),
  );
  const closed = [...outside.slice(0, 2), NOBODY].map((conversation): Call => ({
    tool: 'read',
    arguments: { conversation, limit: 100 },
    expected: NOT_FOUND,
  }));
  return [...readable, ...closed, ...artifactCalls(turn)];
}

function artifactCalls(turn: DoorTurn): Call[] {
  const { world, seen } = turn;
  const shown = new Set(seen.map(({ id }) => id));
  const hidden = world.artifacts.map(textOf).filter(({ id }) => !shown.has(id));
  const narrowed = narrowedBy(turn, pick([...world.users.keys(), NOBODY], pick(world.picks, 2)));
  const read = (artifact: string, by: DoorTurn, given: Record<string, unknown> = {}): Call => {
    const found = by.seen.find(({ id }) => id === artifact);
    return {
      tool: 'read',
      arguments: { artifact, limit: 20, direction: 'forward', ...given },
      expected: found === undefined ? NOT_FOUND : all([itemOf(by, found)]),
    };
  };
  return [
    ...artifactsOf(turn).flatMap(({ id }) => [
      read(id, turn),
      read(id, narrowed.turn, { recipient: narrowed.recipient }),
    ]),
    ...hidden.slice(0, 3).map(({ id }) => read(id, turn)),
    read('40000000-0000-4000-8000-000000000000', turn),
  ];
}

function pagesOf(turn: DoorTurn, conversation: ExternalId): Call[] {
  const messages = messagesOf(turn).filter((message) => message.conversation === conversation);
  const items = messages.map((message) => itemOf(turn, message));
  const backward = [...items].reverse();
  const read = (given: Record<string, unknown>, expected: Expectation): Call => ({
    tool: 'read',
    arguments: { conversation, ...given },
    expected,
  });
  return [
    read({ limit: 100, direction: 'forward' }, all(items)),
    read(
      { limit: 2, direction: 'backward' },
      { code: null, items: backward.slice(0, 2), more: items.length > 2 },
    ),
    ...[0n, ...messages.map(({ seq }) => seq)].map((after, i) =>
      read(
        { limit: 1, direction: 'forward', fromSeq: String(after + 1n) },
        { code: null, items: items.slice(i, i + 1), more: i + 1 < items.length },
      ),
    ),
  ];
}

function nearCalls(turn: DoorTurn): Call[] {
  return [...aroundCalls(turn), ...threadCalls(turn)];
}

function aroundCalls(turn: DoorTurn): Call[] {
  const { world } = turn;
  const seen = messagesOf(turn);
  const anchors = [
    ...seen.slice(0, 1),
    ...world.messages.filter((message) => !seen.includes(message)).slice(-3),
  ];
  return anchors.map((anchor): Call => {
    const near = seen.filter(({ conversation }) => conversation === anchor.conversation);
    const at = near.indexOf(anchor);
    const items = near.slice(Math.max(0, at - 1), at + 2).map((message) => itemOf(turn, message));
    return {
      tool: 'around',
      arguments: {
        conversation: anchor.conversation,
        seq: String(anchor.seq),
        before: 1,
        after: 1,
      },
      expected: at < 0 ? NOT_FOUND : all(items),
    };
  });
}

function threadCalls(turn: DoorTurn): Call[] {
  const { world } = turn;
  const seen = messagesOf(turn);
  const replied = world.messages.filter((root) =>
    world.messages.some(
      ({ conversation, replyTo }) => conversation === root.conversation && replyTo === root.id,
    ),
  );
  const roots = [
    ...replied.filter((root) => seen.includes(root)).slice(0, 2),
    ...replied.slice(0, 1),
  ];
  return roots.map((root): Call => {
    const replies = seen.filter(
      (message) =>
        message.conversation === root.conversation &&
        (message === root || message.replyTo === root.id),
    );
    return {
      tool: 'thread',
      arguments: { conversation: root.conversation, seq: String(root.seq), limit: 100 },
      expected: seen.includes(root)
        ? all(replies.map((message) => itemOf(turn, message)))
        : NOT_FOUND,
    };
  });
}

function searchCalls(turn: DoorTurn): Call[] {
  const { world, seen, turn: asked } = turn;
  const word = pick(WORDS, pick(world.picks, 3));
  const shown = new Set(seen.map(({ canary }) => canary));
  const hidden = [...world.messages, ...world.artifacts].filter(({ canary }) => !shown.has(canary));
  const author = [...world.users.keys()][0] ?? NOBODY;
  const narrowed = narrowedBy(turn, pick([...world.users.keys(), NOBODY], pick(world.picks, 0)));
  const search = (
    query: string,
    given: Record<string, unknown>,
    hits: readonly Hit[],
    by = turn,
  ): Call => ({
    tool: 'search',
    arguments: { query, limit: 100, total: true, ...given },
    expected: {
      ...all(hits.map(({ message, score }) => ({ ...itemOf(by, message), score: String(score) }))),
      total: { messages: String(hits.length), complete: true },
    },
  });
  const hits = ranked(seen, [word]);
  const other = pick(WORDS, pick(world.picks, 3) + 1);
  const third = pick(WORDS, pick(world.picks, 3) + 2);
  const moment = pick([NOW, ...world.messages.map(({ sentAt }) => sentAt)], pick(world.picks, 0));
  const here = seen.filter(({ conversation }) => conversation === asked.destination.id);
  return [
    search(word, {}, hits),
    search(`${word} the ${other}`, {}, ranked(seen, [word, other])),
    search(`${word} -${other}`, {}, without(hits, other)),
    search(`${word} -${other} -"${third}"`, {}, without(without(hits, other), third)),
    search(`"${word} ${other}"`, {}, saying(ranked(seen, [word, other]), [word, other])),
    search(
      `"${word}" "${other}" ${third}`,
      {},
      saying(saying(ranked(seen, [word, other, third]), [word]), [other]),
    ),
    search(`${word} -"${word} ${other}"`, {}, notSaying(hits, [word, other])),
    search(`${word.slice(0, 4)}* ${other}`, {}, ranked(seen, [`${word.slice(0, 4)}*`, other])),
    ...WORDS.map((each) =>
      search(`${each.slice(0, 4)}*`, {}, ranked(seen, [`${each.slice(0, 4)}*`])),
    ),
    search(
      `${word.slice(0, 4)}*`,
      { conversation: asked.destination.id },
      ranked(here, [`${word.slice(0, 4)}*`]),
    ),
    search(`c${pick(world.picks, 0) % 8}*`, {}, ranked(seen, [`c${pick(world.picks, 0) % 8}*`])),
    search(
      word,
      { kind: 'message' },
      hits.filter(({ message }) => message.artifact === undefined),
    ),
    search(
      word,
      { kind: 'artifact' },
      hits.filter(({ message }) => message.artifact !== undefined),
    ),
    search(word, { kind: 'event' }, []),
    search(
      word,
      { since: formatInstant(moment) },
      hits.filter(({ message: { sentAt } }) => sentAt >= moment),
    ),
    search(
      word,
      { until: formatInstant(moment) },
      hits.filter(({ message: { sentAt } }) => sentAt < moment),
    ),
    search(word, { conversation: asked.destination.id }, ranked(here, [word])),
    search(
      word,
      { author },
      hits.filter(
        ({ message: { author: by } }) => by !== undefined && 'user' in by && by.user === author,
      ),
    ),
    search(
      word,
      { recipient: narrowed.recipient },
      ranked(narrowed.turn.seen, [word]),
      narrowed.turn,
    ),
    search('the a & (', {}, []),
    ...[...seen.slice(0, 1), ...artifactsOf(turn).slice(0, 1)].map(({ canary }) =>
      search(canary, {}, ranked(seen, [canary])),
    ),
    ...[...hidden.slice(0, 2), ...hidden.slice(-2)].map(({ canary }) => search(canary, {}, [])),
  ];
}

interface Hit {
  readonly message: TestText;
  readonly score: number;
}

const without = (hits: readonly Hit[], word: string) => notSaying(hits, [word]);

const saying = (hits: readonly Hit[], phrase: readonly string[]) =>
  hits.filter(({ message }) => says(message, phrase));

const notSaying = (hits: readonly Hit[], phrase: readonly string[]) =>
  hits.filter(({ message }) => !says(message, phrase));

function says({ body }: TestText, phrase: readonly string[]): boolean {
  return ` ${body} `.includes(` ${phrase.join(' ')} `);
}

/**
 * BM25 with k1 0.9 and b 0.4, in millionths. Its numbers are of what people wrote among the messages seen: an
 * artifact, or an answer that came out of a delivery, is found and not counted. A word with an asterisk stands for all that begin so, and
 * counts once.
 */
function ranked(seen: readonly TestText[], words: readonly string[]): Hit[] {
  const termsOf = ({ body }: TestText) => body.split(' ');
  const lengthOf = (message: TestText) => new Set(termsOf(message)).size;
  const written = seen.filter(({ delivery }) => delivery === undefined);
  const average =
    written.reduce((sum, message) => sum + lengthOf(message), 0) / Math.max(written.length, 1);
  const timesIn = (message: TestText, word: string) => {
    const begins = word.endsWith('*');
    const times = termsOf(message).filter((term) =>
      begins ? term.startsWith(word.slice(0, -1)) : term === word,
    ).length;
    return begins ? Math.min(times, 1) : times;
  };
  const part = (message: TestText, word: string) => {
    const times = timesIn(message, word);
    const having = written.filter((other) => timesIn(other, word) > 0).length;
    const weight = Math.log(1 + (written.length - having + 0.5) / (having + 0.5));
    const norm = 0.6 + (0.4 * lengthOf(message)) / Math.max(average, 1);
    return Math.round((1e6 * weight * times * 1.9) / (times + 0.9 * norm));
  };
  return seen
    .filter((message) => words.some((word) => timesIn(message, word) > 0))
    .map((message) => ({
      message,
      score: words.reduce((sum, word) => sum + part(message, word), 0),
    }))
    .sort(
      (a, b) =>
        b.score - a.score ||
        Number(b.message.seq - a.message.seq) ||
        compareUtf8(a.message.conversation, b.message.conversation),
    );
}

/** After a whole answer of a search: the same in pages of one, by the cursors that it gives. */
export function nextPages(call: Call, { items }: Answer): Call[] {
  const { recipient, author, conversation } = call.arguments;
  const whole = [recipient, author, conversation].every((filter) => filter === undefined);
  if (call.tool !== 'search' || !whole || items === null) return [];
  return [undefined, ...items].map((after, i): Call => {
    const cursor =
      after === undefined
        ? {}
        : { after: { score: after.score, seq: after.seq, conversation: after.conversation } };
    return {
      tool: 'search',
      arguments: { ...call.arguments, limit: 1, ...cursor },
      expected: {
        ...call.expected,
        items: call.expected.items.slice(i, i + 1),
        more: i + 1 < call.expected.items.length,
      },
    };
  });
}

function narrowedBy(
  turn: DoorTurn,
  recipient: ExternalId,
): { recipient: ExternalId; turn: DoorTurn } {
  const { world, turn: asked, plain, now } = turn;
  const scope = plainScope(world, asked, plain, now, recipient);
  return {
    recipient,
    turn: { ...turn, scope, seen: plainVisible(world, scope, asked.destination.id) },
  };
}

/** A text as it goes out; a reply and an embed name only messages that are visible too. */
function itemOf(turn: DoorTurn, message: TestText): Record<string, unknown> {
  const { world, scope } = turn;
  const seen = messagesOf(turn);
  const { artifact } = message;
  const conversation = world.conversations.get(message.conversation);
  const author = message.author ?? {};
  const parent = seen.find(
    (other) => other.conversation === message.conversation && other.id === message.replyTo,
  );
  const embeds = message.embeds.flatMap((embed) =>
    seen.filter((other) => other.conversation === embed.conversation && other.id === embed.message),
  );
  return {
    text: message.body,
    conversation: message.conversation,
    id: message.id,
    seq: String(message.seq),
    revision: '1',
    kind: artifact === undefined ? 'message' : 'artifact',
    edited: message.edited,
    sentAt: formatInstant(message.sentAt),
    authorUser: 'user' in author ? author.user : undefined,
    authorPersona: 'persona' in author ? author.persona : undefined,
    owner: conversation?.owner,
    visibility:
      artifact === undefined ? conversation?.visibility : sensitivityOf(world, artifact.id),
    ...(artifact !== undefined && { artifact: factsOf(turn, artifact) }),
    fromSeq: String(scope.get(message.conversation)),
    replyTo: parent === undefined ? undefined : { id: parent.id, seq: String(parent.seq) },
    embeds:
      embeds.length === 0
        ? undefined
        : embeds.map((target) => ({
            conversation: target.conversation,
            id: target.id,
            seq: String(target.seq),
          })),
  };
}

function factsOf({ world }: DoorTurn, { id, kind, title, asserted }: TestArtifact) {
  return { kind, title, asserted, stale: isStale(world, id) };
}
