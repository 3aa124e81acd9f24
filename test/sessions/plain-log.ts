import {
  blocksFor,
  compiled,
  cursorOf,
  entryOf,
  isFor,
  lastOf,
  merged,
  misplaced,
  narrows,
  stored,
  type PlainBlock,
  type PlainEntry,
  type Viewed,
  type Written,
  type WrittenEntry,
} from './plain-view.ts';

/**
 * A context log by the plain rules: every entry with all its revisions, every block with who it is for. What the
 * product makes up (ids and handles) is told to it; what a call gives, or why it is refused, it says itself.
 */
export class PlainLog {
  readonly session: string;
  readonly agents: PlainAgent[] = [];
  readonly namespaces: PlainNamespace[] = [];
  readonly entries: PlainEntry[] = [];
  readonly #forks = new Map<string, PlainLog>();
  readonly #house: House;
  readonly #origin: { readonly parent: PlainLog; readonly name: string } | undefined;
  #change = 0;

  constructor(house: House, session: string, origin?: { parent: PlainLog; name: string }) {
    this.#house = house;
    this.session = session;
    this.#origin = origin;
  }

  /** The log of a session, with its resident agent. */
  static opened(house: House, session: string, handle: string): PlainLog {
    const log = new PlainLog(house, session);
    log.agents.push({ name: 'resident', kind: 'resident', primary: true });
    log.namespaces.push(defaultNamespace('resident', handle, undefined, 0));
    return log;
  }

  /** For whom a view through this handle is; nobody where it opens nothing. */
  readersAt(handle: string | undefined): readonly string[] {
    const place = this.#at(handle);
    return place === undefined ? [] : this.#readersOf(place);
  }

  /** What a view through this handle holds of an entry now, with the audiences. Nothing is counted as read. */
  shownAt(handle: string | undefined, id: string): readonly PlainBlock[] {
    const found = this.#view(this.readersAt(handle)).find(({ entry }) => entry.id === id);
    return found?.blocks.map(({ block }) => block) ?? [];
  }

  append(turn: PlainTurn, entries: readonly WrittenEntry[], ids: readonly string[]): Outcome {
    if (entries.some(misplaced)) return { code: 'invalid_input' };
    const { audience } = this.#house;
    const made = entries.filter((entry) => !isOwnWord(entry, audience));
    if (!made.every(({ blocks }) => turn.mayKeep(blocks, audience)))
      return { code: 'narrowing_refused' };
    for (const [n, { role, participant, ...written }] of entries.entries()) {
      this.#change += 1;
      const revision = { number: 1, change: this.#change, ...stored(written) };
      const began = this.#change;
      this.entries.push({ id: ids[n] ?? '', role, participant, began, revisions: [revision] });
    }
    return { body: { ids } };
  }

  edit(
    turn: PlainTurn,
    handle: string | undefined,
    id: string,
    revision: number,
    edit: Written,
  ): Outcome {
    const place = this.#at(handle);
    if (place === undefined) return { code: 'not_found' };
    const seen = this.#view(this.#readersOf(place)).find(({ entry }) => entry.id === id);
    if (seen === undefined) return { code: 'not_found' };
    const { entry } = seen;
    const last = lastOf(entry);
    if (last.number !== revision) return { code: 'conflict' };
    if (misplaced({ ...edit, role: entry.role })) return { code: 'invalid_input' };
    if (!turn.mayKeep(edit.blocks, this.#house.audience)) return { code: 'narrowing_refused' };

    const readers = this.#readersOf(place);
    const narrowed = this.namespaces.some(
      (of) =>
        narrows(blocksFor(last.blocks, readers), edit.blocks, this.#readersOf(of)) &&
        (of.reader !== place.reader || of.watermark >= entry.began),
    );
    if (narrowed) return { code: 'narrowing_refused' };

    const written = stored(edit);
    const blocks = merged(last.blocks, written.blocks, readers);
    this.#change += 1;
    const number = last.number + 1;
    const keeps = last.blocks.some(({ block }) => !isFor(block, readers));
    const sources = keeps ? [...last.sources, ...written.sources] : written.sources;
    entry.revisions.push({ number, change: this.#change, blocks, sources });
    return { body: { revision: number.toString() } };
  }

  /** `made` is the handle that a new or claimed namespace gets. */
  open({ name = 'default', agent, reader, from }: Opening, made: string): Outcome {
    const parent = from === undefined ? undefined : this.#at(from);
    if (from !== undefined) {
      if (parent === undefined) return { code: 'not_found' };
      if (reader !== undefined && reader !== parent.reader) return { code: 'conflict' };
    }
    const known = this.namespaces.find((of) => of.name === name);
    if (known === undefined) {
      const stands = agent ?? this.agents.find(({ primary }) => primary)?.name ?? '';
      if (!this.agents.some((of) => of.name === stands))
        this.agents.push({ name: stands, kind: 'sub_agent', primary: false });
      const opened: PlainNamespace = {
        name,
        agent: stands,
        handle: made,
        reader: reader ?? parent?.reader,
        claimed: reader !== undefined || (parent?.claimed ?? false),
        watermark: parent?.watermark ?? 0,
        onlyFor: parent?.onlyFor,
        pins: new Set(),
      };
      this.namespaces.push(opened);
      return { body: told(opened) };
    }
    const anotherAgent = agent !== undefined && agent !== known.agent;
    const anotherOrigin = parent !== undefined && parent.reader !== known.reader;
    const anotherReader = reader !== undefined && known.claimed && reader !== known.reader;
    if (anotherAgent || anotherOrigin || anotherReader) return { code: 'conflict' };
    if (parent !== undefined) {
      // What its origin was shown since counts for it too.
      known.onlyFor = meet(known.onlyFor, parent.onlyFor);
      known.watermark = Math.max(known.watermark, parent.watermark);
      known.claimed ||= parent.claimed;
    } else if (reader !== undefined && !known.claimed)
      Object.assign(known, { reader, claimed: true, handle: made });
    return { body: told(known) };
  }

  pin(handle: string | undefined, id: string, pinned: boolean): Outcome {
    const place = this.#at(handle);
    if (place === undefined || this.shownAt(handle, id).length === 0) return { code: 'not_found' };
    if (pinned) place.pins.add(id);
    else place.pins.delete(id);
    return { body: {} };
  }

  /** `session` and `made` are the id of a new fork and the handle of its default namespace. */
  fork(
    handle: string | undefined,
    name: string,
    session: string,
    made: string,
  ): Outcome & { log?: PlainLog } {
    const place = this.#at(handle);
    if (place === undefined) return { code: 'not_found' };
    const known = this.#forks.get(name);
    if (known !== undefined) {
      if (known.#at(undefined)?.reader !== place.reader) return { code: 'conflict' };
      return { body: { session: known.session }, log: known };
    }
    const log = new PlainLog(this.#house, session, { parent: this, name });
    const view = this.#view(this.#readersOf(place));
    log.agents.push({ name, kind: 'fork', primary: true });
    const own = defaultNamespace(name, made, place.reader, place.watermark);
    own.onlyFor = place.onlyFor;
    log.namespaces.push(own);
    log.#change = this.#change;
    for (const { entry, blocks } of view) {
      log.entries.push({ ...entry, revisions: [{ ...lastOf(entry), blocks }] });
      if (place.pins.has(entry.id)) own.pins.add(entry.id);
    }
    this.#forks.set(name, log);
    return { body: { session }, log };
  }

  /** What is read through a handle. It counts as read before it is looked at. */
  read(turn: PlainTurn, handle: string | undefined, question: Question): Outcome {
    const place = this.#at(handle);
    if (place === undefined) return { code: 'not_found' };
    place.watermark = Math.max(place.watermark, this.#change);
    place.claimed = true;
    const answer = this.#answer(place, question, this.#view(this.#readersOf(place)));
    if ('code' in answer) return answer;
    for (const { block } of answer.shown.flatMap(({ blocks }) => blocks)) {
      if (block.audience?.some((name) => !this.#isAgentAlone(name)))
        place.onlyFor = meet(place.onlyFor, block.audience);
    }
    turn.isBoundTo(place.onlyFor);
    return { body: answer.body };
  }

  #answer(
    place: PlainNamespace,
    question: Question,
    view: readonly Viewed[],
  ): { body: object; shown: readonly Viewed[] } | { code: string } {
    switch (question.what) {
      case 'compile':
      case 'preview':
        return { body: compiled(view), shown: view };
      case 'entries': {
        const { after, limit } = question;
        const since = after === undefined ? 0 : this.#changeOf(after);
        if (since === undefined) return { code: 'invalid_input' };
        const changed = view
          .filter(({ entry }) => lastOf(entry).change > since)
          .sort((a, b) => lastOf(a.entry).change - lastOf(b.entry).change);
        const page = changed.slice(0, limit);
        const last = page.at(-1);
        const cursor = last === undefined ? after : cursorOf(last.entry);
        const body = { entries: page.map(entryOf), cursor, complete: changed.length <= limit };
        // That there are more is told of the next one.
        return { body, shown: changed.slice(0, limit + 1) };
      }
      case 'search': {
        const wanted = question.query.toLowerCase();
        const hits = view.filter(({ blocks }) =>
          blocks.some(({ block }) => block.text?.toLowerCase().includes(wanted)),
        );
        const page = hits.slice(0, question.limit);
        // That something is not there is told of all that was looked through.
        return {
          body: { entries: page.map(entryOf), total: hits.length.toString() },
          shown: view,
        };
      }
      case 'summary input': {
        const ends = [question.from, question.to].map((id) =>
          view.findIndex(({ entry }) => entry.id === id),
        );
        if (ends.includes(-1)) return { code: 'not_found' };
        const range = view.slice(Math.min(...ends), Math.max(...ends) + 1);
        return { body: { entries: range.map(entryOf) }, shown: range };
      }
      case 'pins': {
        const pinned = view.filter(({ entry }) => place.pins.has(entry.id));
        return { body: { entries: pinned.map(entryOf) }, shown: pinned };
      }
      case 'session':
        // So is how much there is.
        return { body: this.#describe(place, view), shown: view };
    }
  }

  #describe(place: PlainNamespace, view: readonly Viewed[]): object {
    return {
      id: this.session,
      parent: this.#origin?.parent.session,
      fork: this.#origin?.name,
      agents: this.agents,
      namespaces: this.namespaces
        .filter(({ reader }) => reader === place.reader)
        .map(({ name, agent, handle }) => ({ name, agent, handle }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
      reader: place.reader,
      entries: view.length.toString(),
      blocks: view.reduce((sum, { blocks }) => sum + blocks.length, 0).toString(),
    };
  }

  /** Work that agents share binds nobody; an agent who bears the id of a person is that person. */
  #isAgentAlone(name: string): boolean {
    return name.startsWith('agent:') && !this.#house.people.includes(name);
  }

  #at(handle: string | undefined): PlainNamespace | undefined {
    return this.namespaces.find((of) =>
      handle === undefined ? of.name === 'default' : of.handle === handle,
    );
  }

  #readersOf({ reader }: PlainNamespace): readonly string[] {
    return reader === undefined ? this.#house.audience : [reader];
  }

  /** The entries of which something is for these readers, in the order of the log. */
  #view(readers: readonly string[]): Viewed[] {
    return this.entries
      .map((entry) => ({ entry, blocks: blocksFor(lastOf(entry).blocks, readers) }))
      .filter(({ blocks }) => blocks.length > 0);
  }

  /** The change that a cursor stands for. */
  #changeOf(cursor: string): number | undefined {
    for (const { id, revisions } of this.entries) {
      const at = revisions.find(({ number }) => cursor === `${id}.${number}`);
      if (at !== undefined) return at.change;
    }
    return undefined;
  }
}

/** A turn, which keeps and sends what it makes for those alone who were named in all that it was shown. */
export class PlainTurn {
  #onlyFor: Names | undefined;

  isBoundTo(names: Names | undefined): void {
    this.#onlyFor = meet(this.#onlyFor, names);
  }

  mayKeep(blocks: readonly PlainBlock[], audience: Names): boolean {
    const onlyFor = this.#onlyFor;
    if (onlyFor === undefined || audience.every((reader) => onlyFor.includes(reader))) return true;
    return blocks.every((block) => block.audience?.every((name) => onlyFor.includes(name)));
  }
}

/** What a person of the audience said is that person's, whatever the turn was shown; a form of a provider nobody said. */
function isOwnWord({ role, participant, blocks }: WrittenEntry, audience: Names): boolean {
  return (
    role === 'user' &&
    audience.includes(participant) &&
    blocks.every(({ type, replay }) => type === 'text' && replay === undefined)
  );
}

type Names = readonly string[];

/** Who is in both; without any names, everybody is. */
function meet(one: Names | undefined, other: Names | undefined): Names | undefined {
  return one === undefined || other === undefined
    ? (one ?? other)
    : one.filter((name) => other.includes(name));
}

/** A code where a call is refused, what it gives where it is not. */
export interface Outcome {
  readonly code?: string;
  readonly body?: object;
}

export type Question =
  | { readonly what: 'compile' | 'preview' | 'pins' | 'session' }
  | { readonly what: 'entries'; readonly limit: number; readonly after?: string | undefined }
  | { readonly what: 'search'; readonly query: string; readonly limit: number }
  | { readonly what: 'summary input'; readonly from: string; readonly to: string };

export interface Opening {
  readonly name?: string;
  readonly agent?: string;
  readonly reader?: string;
  readonly from?: string;
}

/** Who reads the answers of a session, and who the people of its organization are. */
interface House {
  readonly audience: readonly string[];
  readonly people: readonly string[];
}
interface PlainAgent {
  readonly name: string;
  readonly kind: string;
  readonly primary: boolean;
}
interface PlainNamespace {
  readonly name: string;
  readonly agent: string;
  handle: string;
  /** Nobody: the session's audience. */
  reader: string | undefined;
  claimed: boolean;
  watermark: number;
  /** Who was named in everything for some readers only that was read here. */
  onlyFor: Names | undefined;
  readonly pins: Set<string>;
}

function defaultNamespace(
  agent: string,
  handle: string,
  reader: string | undefined,
  watermark: number,
): PlainNamespace {
  return {
    name: 'default',
    agent,
    handle,
    reader,
    claimed: true,
    watermark,
    onlyFor: undefined,
    pins: new Set(),
  };
}

function told({ name, agent, handle, reader }: PlainNamespace): object {
  return { name, agent, handle, reader };
}
