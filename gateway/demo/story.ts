import { externalId, type ExternalId } from '../../policy/identity.ts';
import type { HeldTurn } from '../cli/turn.ts';
import type { Cast, CastMessage } from './cast.ts';
import { PERSONA, type Company, type Packet } from './company.ts';
import { excerpt, type Stage } from './stage.ts';

const THREAD = externalId('demo-thread');

type Item = Packet['items'][number];

/** What a person finds alone, in a private thread of their own. */
interface Alone {
  readonly items: ReadonlyMap<string, Item>;
  readonly floors: ReadonlyMap<string, bigint>;
}

/**
 * Tells the story: an answer for those who read it, held when somebody joins, rebuilt for the new
 * readers and delivered once. Every verdict is the gateway's, over HTTP; what is expected comes from
 * the cast alone.
 */
export async function tellStory(company: Company, cast: Cast, stage: Stage): Promise<void> {
  const story = new Story(company, cast, stage);
  await story.prepare();
  const first = await story.answerTogether();
  if (cast.newcomer === undefined) await story.deliver(first.turn, first.packet);
  else {
    await story.join(first, cast.newcomer);
    const second = await story.rebuild(first, cast.newcomer);
    await story.deliver(second.turn, second.packet);
  }
  await story.copyElsewhere();
}

interface Answer {
  readonly turn: HeldTurn;
  readonly packet: Packet;
}

class Story {
  readonly #company: Company;
  readonly #cast: Cast;
  readonly #stage: Stage;

  constructor(company: Company, cast: Cast, stage: Stage) {
    this.#company = company;
    this.#cast = cast;
    this.#stage = stage;
  }

  async prepare(): Promise<void> {
    const { requester, other, newcomer } = this.#cast;
    const people = [requester, other, ...(newcomer === undefined ? [] : [newcomer])];
    await this.#company.putLines([
      { fact: 'persona', id: PERSONA, custody: 'service', designated: true },
      { fact: 'conversation', id: THREAD, kind: 'group', visibility: 'members', aiThread: true },
      ...[requester, other].map((user) => joins(THREAD, user)),
      ...people.flatMap((user) => {
        const id = this.#notes(user);
        const shape = { kind: 'private', visibility: 'members', aiThread: true, owner: user };
        return [{ fact: 'conversation', id, ...shape }, joins(id, user)];
      }),
      {
        fact: 'message',
        conversation: THREAD,
        id: 'question',
        author: { user: requester },
        body: 'Could you look this up for us?',
        sentAt: new Date().toISOString(),
      },
    ]);
  }

  async answerTogether(): Promise<Answer> {
    const { requester, other, query, shared, lost, hidden, guests } = this.#cast;
    this.#stage.step(
      `${this.#name(requester)} asks in a thread that ${this.#name(other)} reads too: “${query}”`,
    );
    const answer = await this.#ask();
    const { grant } = answer.turn;
    this.#stage.aside(
      `mode ${grant.mode}, ${grant.readers.people} people read the answer, session ${grant.sessionId}`,
    );
    this.#show(answer.packet);
    this.#stage.expect('the mode is the thread’s', grant.mode, guests ? 'guest' : 'thread');
    this.#stage.expect('two people read it', grant.readers, { people: 2, classes: 0 });
    const found = keysOf(answer.packet);
    if (shared) this.#stage.expect('what everyone reads is found', found.has(keyOf(shared)), true);
    if (lost) {
      const claim = 'what only the two of them read is found, too';
      this.#stage.expect(claim, found.has(keyOf(lost)), true);
    }
    await this.#compare(answer.packet, [requester, other]);
    if (hidden) {
      const claim = `what ${this.#name(other)} may not read is withheld`;
      this.#stage.expect(claim, found.has(keyOf(hidden)), false);
    }
    return answer;
  }

  async join({ turn, packet }: Answer, newcomer: ExternalId): Promise<void> {
    this.#stage.step(`An answer waits while ${this.#name(newcomer)} joins the thread`);
    const proposed = await this.#company.propose(turn, THREAD, textOf(packet));
    this.#stage.expect('the answer was cleared for two readers', proposed.status, 'cleared');
    await this.#company.put(`/conversations/${THREAD}/members/${encodeURIComponent(newcomer)}`, {
      history: 'all',
    });
    this.#stage.aside(`${this.#name(newcomer)} is a reader now; the answer was not made for three`);
    const released = await this.#company.release(proposed);
    // A first guest changes the mode, which is asked before the readers are compared.
    const changesMode = this.#cast.guestJoins && !this.#cast.guests;
    const code = changesMode ? 'mode_changed' : 'audience_changed';
    this.#stage.expect('its release is refused, and says what to do', released, {
      code,
      recovery: 'rebuild',
    });
    const held = await this.#company.delivery(proposed.id);
    this.#stage.expect('the answer is held for good', [held.status, held.code], ['held', code]);
    const again = await this.#company.search(turn, this.#cast.query);
    this.#stage.expect('its grant finds nothing more', again, 'grant_revoked');
    const minted = await this.#company.mintAgain(turn);
    this.#stage.expect('its turn gets no other grant', minted, code);
  }

  async rebuild(first: Answer, newcomer: ExternalId): Promise<Answer> {
    const { requester, other, shared, lost } = this.#cast;
    this.#stage.step('The recovery: a new turn, for those who read it now');
    const second = await this.#ask();
    this.#stage.aside(`session ${second.turn.grant.sessionId}`);
    this.#show(second.packet);
    const { grant } = second.turn;
    this.#stage.expect('three people read it', grant.readers, { people: 3, classes: 0 });
    const same = grant.sessionId === first.turn.grant.sessionId;
    this.#stage.expect('the session is another one', same, false);
    const found = keysOf(second.packet);
    if (lost) {
      const fewer = second.packet.items.length < first.packet.items.length;
      this.#stage.expect('it draws on fewer sources', fewer, true);
      const claim = `what ${this.#name(newcomer)} may not read is gone`;
      this.#stage.expect(claim, found.has(keyOf(lost)), false);
    }
    if (shared) this.#stage.expect('what all three read is found', found.has(keyOf(shared)), true);
    await this.#compare(second.packet, [requester, other, newcomer]);
    return second;
  }

  async deliver(turn: HeldTurn, packet: Packet): Promise<void> {
    this.#stage.step('The answer is delivered, once');
    const text = textOf(packet);
    const proposed = await this.#company.propose(turn, THREAD, text);
    this.#stage.expect('the answer is cleared', proposed.status, 'cleared');
    const released = await this.#company.release(proposed);
    this.#stage.expect('its release hands out these bytes', released, { payload: text });
    await this.#company.put(`/conversations/${THREAD}/messages/answer`, {
      author: { persona: PERSONA },
      body: text,
      sentAt: new Date().toISOString(),
    });
    await this.#company.acknowledge(proposed, 'answer');
    const { status } = await this.#company.delivery(proposed.id);
    this.#stage.expect('it is delivered', status, 'delivered');
    const twice = await this.#company.release(proposed);
    this.#stage.expect('a second release hands out nothing', twice, {
      code: 'already_released',
      recovery: 'reconcile',
    });
  }

  async copyElsewhere(): Promise<void> {
    const { requester, hidden, query, place = THREAD } = this.#cast;
    const where = place === THREAD ? 'the thread' : this.#title(place);
    this.#stage.step(`${this.#name(requester)} drafts in private, and would post it to ${where}`);
    const destination = this.#notes(requester);
    const trigger = { kind: 'schedule' } as const;
    const turn = await this.#company.turn({ destination, requester, trigger });
    const packet = await this.#company.search(turn, query);
    const found = typeof packet === 'string' ? new Set() : keysOf(packet);
    if (hidden) {
      const claim = `alone, ${this.#name(requester)} finds what was withheld`;
      this.#stage.expect(claim, found.has(keyOf(hidden)), true);
    }
    const draft = await this.#company.propose(
      turn,
      place,
      'A draft made from what I alone may read.',
    );
    this.#stage.expect(
      'the draft is held until its owners agree',
      [draft.status, draft.code, draft.recovery],
      ['held', 'source_revoked', 'ask_owner'],
    );
  }

  async #ask(): Promise<Answer> {
    const { requester, query } = this.#cast;
    const trigger = { kind: 'thread', seq: '1' } as const;
    const turn = await this.#company.turn({ destination: THREAD, requester, trigger });
    const packet = await this.#company.search(turn, query);
    if (typeof packet === 'string') throw new Error(`the search was refused: ${packet}`);
    return { turn, packet };
  }

  /**
   * Holds a packet against what each reader finds alone: it is what all of them find, no more and no
   * less. Says of what the requester alone finds who lacks it, and why.
   */
  async #compare(packet: Packet, readers: readonly ExternalId[]): Promise<void> {
    const alone = new Map<ExternalId, Alone>();
    for (const reader of readers) alone.set(reader, await this.#alone(reader));
    const own = alone.get(this.#cast.requester)?.items ?? new Map<string, Item>();
    const common = [...own.keys()].filter((key) =>
      [...alone.values()].every(({ items }) => items.has(key)),
    );
    this.#stage.expect(
      'it is what each of them finds alone, no more and no less',
      [...keysOf(packet)].sort(),
      common.sort(),
    );
    const withheld = [...own].filter(([key]) => !common.includes(key));
    for (const [key, item] of withheld.slice(0, 3)) {
      const lacking = [...alone]
        .filter(([, { items }]) => !items.has(key))
        .map(([reader, { floors }]) => this.#why(reader, floors, item));
      this.#stage.tell(
        `withheld: ${this.#title(item.source.conversation)} ${item.source.seq}, ${lacking.join('; ')}`,
      );
    }
    if (withheld.length > 3) this.#stage.aside(`and ${withheld.length - 3} more`);
  }

  async #alone(person: ExternalId): Promise<Alone> {
    const destination = this.#notes(person);
    const trigger = { kind: 'schedule' } as const;
    const turn = await this.#company.turn({ destination, requester: person, trigger });
    const packet = await this.#company.search(turn, this.#cast.query);
    const items = typeof packet === 'string' ? [] : packet.items;
    return {
      items: new Map(items.map((item) => [keyOfItem(item), item])),
      floors: await this.#company.floors(turn),
    };
  }

  #why(reader: ExternalId, floors: ReadonlyMap<string, bigint>, { source }: Item): string {
    const floor = floors.get(source.conversation);
    if (floor === undefined) return `${this.#name(reader)} is not in it`;
    return floor > BigInt(source.seq)
      ? `${this.#name(reader)} reads it from ${floor.toString()} on`
      : `${this.#name(reader)} does not find it`;
  }

  #show({ items }: Packet): void {
    for (const item of items.slice(0, 4)) {
      const { conversation, seq } = item.source;
      this.#stage.tell(`${this.#title(conversation)} ${seq}: ${excerpt(item.text)}`);
    }
    if (items.length > 4) this.#stage.aside(`and ${items.length - 4} more`);
    if (items.length === 0) this.#stage.tell('nothing');
  }

  /** The private thread of a person of the cast. */
  #notes(person: ExternalId): ExternalId {
    const { requester, other } = this.#cast;
    return externalId(`demo-notes-${[requester, other].indexOf(person) + 1}`);
  }

  #name(person: ExternalId): string {
    return excerpt(this.#cast.names.get(person) ?? person, 40);
  }

  #title(conversation: string): string {
    if (conversation === THREAD) return 'the thread';
    return excerpt(this.#cast.titles.get(conversation) ?? conversation, 40);
  }
}

function joins(conversation: ExternalId, user: ExternalId) {
  return { fact: 'member', conversation, user, history: 'all' };
}

const keyOf = ({ conversation, id }: CastMessage) => `${conversation}/${id}`;
const keyOfItem = ({ source }: Item) => `${source.conversation}/${source.id}`;
const keysOf = ({ items }: Packet) => new Set(items.map(keyOfItem));

function textOf({ items }: Packet): string {
  const [first] = items;
  if (first === undefined) return 'Nothing that all of you may read says anything about it.';
  return `From ${items.length} of your sources: ${excerpt(first.text)}`;
}
