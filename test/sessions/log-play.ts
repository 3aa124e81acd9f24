import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import type { Answer, TestGateway } from '../support/gateway.ts';
import { logOf, type TestLog, entryMessages, entryProvenance } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';
import type { Step, StepOf } from './log-steps.ts';
import { PlainLog, PlainTurn, type Outcome, type Question } from './plain-log.ts';
import type { PlainBlock, Written } from './plain-view.ts';

/** Who reads the destination, and who else there is. */
export const AUDIENCE = ['ana', 'ben'];
export const PEOPLE = [...AUDIENCE, 'cleo'];

/** One session with all its forks, over HTTP and by the plain rules. */
export class Play {
  readonly #turns: readonly { readonly turn: TestTurn; readonly plain: PlainTurn }[];
  readonly #pairs: Pair[] = [];
  readonly #tally: Map<string, number>;
  #texts = 0;

  private constructor(turns: readonly TestTurn[], tally: Map<string, number>) {
    this.#turns = turns.map((turn) => ({ turn, plain: new PlainTurn() }));
    this.#tally = tally;
  }

  /** Begins in the session of the turns. */
  static async begin(
    { send }: Pick<TestGateway, 'send'>,
    turns: readonly [TestTurn, ...TestTurn[]],
    tally: Map<string, number>,
  ): Promise<Play> {
    const play = new Play(turns, tally);
    const log = logOf({ send }, turns[0]);
    const { handle } = await log.open({});
    const house = { audience: AUDIENCE, people: PEOPLE };
    play.#add(log, PlainLog.opened(house, log.session, handle), AUDIENCE);
    for (const reader of AUDIENCE)
      await play.#open({
        step: 'open',
        log: 0,
        turn: 0,
        name: reader,
        agent: null,
        reader,
        from: null,
      });
    return play;
  }

  async take(step: Step): Promise<void> {
    switch (step.step) {
      case 'append':
        return this.#append(step);
      case 'edit':
        return this.#edit(step);
      case 'open':
        return this.#open(step);
      case 'fork':
        return this.#fork(step);
      case 'pin':
        return this.#pin(step);
      case 'read':
        return this.#read(step);
    }
  }

  /** Reads every place of every log to its end: each entry that it holds was given there, in its last form, once. */
  async readAll(): Promise<void> {
    for (const pair of this.#pairs) {
      for (const place of pair.places) {
        const held = await this.#ask(pair, place, 0, { what: 'compile' });
        await this.#ask(pair, place, 0, { what: 'session' });
        if (held.body === undefined) continue;
        for (let complete = false; !complete;) {
          const page = await this.#ask(pair, place, 0, {
            ...{ what: 'entries', limit: 3, after: place.cursor },
          });
          ({ complete } = page.body as { complete: boolean });
        }
        const told = entryProvenance(held.body as CompiledLog);
        expect(place.given).toEqual(
          expect.arrayContaining(told.map(({ entry, revision }) => `${entry}.${revision}`)),
        );
      }
    }
  }

  async #append({ role, participant, audiences, ...step }: StepOf<'append'>): Promise<void> {
    const { log, plain, turn } = this.#at(step);
    const blocks = audiences.map((of) => this.#text(of));
    const entry = { role, participant, ...this.#write(blocks, step) };
    const answer = await log.tryAppend([entry]);
    this.#same('append', answer, plain.append(turn, [entry], bodyOf(answer)?.ids ?? []));
  }

  async #edit({ entry, stale, changes, added, ...step }: StepOf<'edit'>): Promise<void> {
    const { log, plain, turn, place } = this.#at(step);
    const { id, revision } = this.#entry(plain, place, entry);
    const kept = plain.shownAt(place.handle, id).flatMap((block, n) => {
      const change = changes[n] ?? 'stay';
      if (change === 'go' || block.text === undefined) return [];
      return [marked(block.text, change === 'stay' ? block.audience : change.audience)];
    });
    const more = added.map((of) => this.#text(of));
    const blocks = kept.length + more.length === 0 ? [this.#text(undefined)] : [...kept, ...more];
    const edit = this.#write(blocks, step);
    const named = stale ? revision + 1 : revision;
    const json = { revision: named.toString(), edit };
    const answer = await log.call('PATCH', `/entries/${id}`, json);
    this.#same('edit', answer, plain.edit(turn, place.handle, id, named, edit));
  }

  async #open({ name, agent, reader, from, ...step }: StepOf<'open'>): Promise<void> {
    const { pair, log, plain } = this.#at(step);
    const origin = from === null ? undefined : this.#place(pair, from).handle;
    const request = {
      ...(name !== '' && { name }),
      ...(agent !== null && { agent }),
      ...(reader !== null && { reader }),
      ...(origin !== undefined && { from: origin }),
    };
    const answer = await log.tryOpen(request);
    const opened = bodyOf(answer);
    this.#same('open', answer, plain.open(request, opened?.handle ?? ''));
    if (opened === undefined || pair.places.some(({ handle }) => handle === opened.handle)) return;
    const readers = opened.reader === undefined ? AUDIENCE : [opened.reader];
    pair.places.push({ handle: opened.handle, readers, cursor: undefined, given: [] });
  }

  async #fork({ name, ...step }: StepOf<'fork'>): Promise<void> {
    const { log, plain, place } = this.#at(step);
    const answer = await log.tryFork(name);
    const session = bodyOf(answer)?.session ?? '';
    const known = session === '' || this.#pairs.some((of) => of.log.session === session);
    const fork = known ? undefined : await log.fork(name);
    const handle = (await fork?.open({}))?.handle ?? '';
    const expected = plain.fork(place.handle, name, session, handle);
    this.#same('fork', answer, expected);
    if (fork === undefined || expected.log === undefined) return;
    this.#add(fork, expected.log, place.readers);
  }

  async #pin({ entry, pinned, ...step }: StepOf<'pin'>): Promise<void> {
    const { log, plain, place } = this.#at(step);
    const { id } = this.#entry(plain, place, entry);
    const answer = await (pinned ? log.pin(id) : log.unpin(id));
    this.#same('pin', answer, plain.pin(place.handle, id, pinned));
  }

  async #read({ what, ...step }: StepOf<'read'>): Promise<void> {
    const { pair, plain, place } = this.#at(step);
    const cursors = this.#pairs.flatMap(({ places }) =>
      places.flatMap(({ cursor }) => cursor ?? []),
    );
    const known = step.other === 11 ? undefined : cursors[step.other % cursors.length];
    const foreign = step.foreign ? (known ?? `${randomUUID()}.1`) : undefined;
    const { limit, query } = step;
    const from = this.#entry(plain, place, step.entry).id;
    const to = this.#entry(plain, place, step.other).id;
    const questions: Record<Question['what'], Question> = {
      compile: { what: 'compile' },
      preview: { what: 'preview' },
      pins: { what: 'pins' },
      session: { what: 'session' },
      entries: { what: 'entries', limit, after: foreign ?? place.cursor },
      search: { what: 'search', query, limit },
      'summary input': { what: 'summary input', from, to },
    };
    await this.#ask(pair, place, step.turn, questions[what]);
  }

  /** Reads through a place by both; nothing comes that is not for its readers, and no change twice. */
  async #ask(pair: Pair, place: Place, turn: number, question: Question): Promise<Outcome> {
    const at = pick(this.#turns, turn);
    const answer = await read(pair.log.by(at.turn).through(place.handle), question);
    for (const [mark, named = ''] of JSON.stringify(answer.body).matchAll(MARKS)) {
      if (named === 'all') continue;
      for (const reader of place.readers) expect(named.split('+'), mark).toContain(reader);
      expect(place.readers).not.toEqual([]);
    }
    const outcome = this.#same(
      question.what,
      answer,
      pair.plain.read(at.plain, place.handle, question),
    );
    if (
      question.what === 'entries' &&
      question.after === place.cursor &&
      outcome.body !== undefined
    ) {
      const page = answer.body as { entries: { id: string; revision: string }[]; cursor?: string };
      for (const { id, revision } of page.entries) {
        expect(place.given).not.toContain(`${id}.${revision}`);
        place.given.push(`${id}.${revision}`);
      }
      place.cursor = page.cursor;
    }
    return outcome;
  }

  #at(step: { readonly log: number; readonly turn: number; readonly place?: number }) {
    const pair = pick(this.#pairs, step.log);
    const place = this.#place(pair, step.place ?? 0);
    const { turn, plain: plainTurn } = pick(this.#turns, step.turn);
    return {
      ...{ pair, place, plain: pair.plain, turn: plainTurn },
      log: pair.log.by(turn).through(place.handle),
    };
  }

  /** A place of a log, seldom one that was never opened. */
  #place({ places }: Pair, n: number): Place {
    if (n === 11) return { handle: randomUUID(), readers: [], cursor: undefined, given: [] };
    return pick(places, n);
  }

  /** An entry that is shown at a place, seldom one that is for whomever. */
  #entry(plain: PlainLog, { handle }: Place, n: number): { id: string; revision: number } {
    const shown = plain.entries.filter(({ id }) => plain.shownAt(handle, id).length > 0);
    const among = n < 10 && shown.length > 0 ? shown : plain.entries;
    if (among.length === 0) return { id: randomUUID(), revision: 1 };
    const { id, revisions } = pick(among, n);
    return { id, revision: revisions.at(-1)?.number ?? 1 };
  }

  #add(log: TestLog, plain: PlainLog, readers: readonly string[]): void {
    const place = { handle: undefined, readers, cursor: undefined, given: [] };
    this.#pairs.push({ log: log.through(undefined), plain, places: [place] });
  }

  /** A text that occurs once and says who it is for. */
  #text(of: readonly string[] | undefined): PlainBlock {
    this.#texts += 1;
    return marked(`t${this.#texts} for`, of);
  }

  /** Blocks with a form that they share, a form of the whole, and sources. */
  #write(
    texts: readonly PlainBlock[],
    { replay, raw, sources }: Pick<StepOf<'append'>, 'replay' | 'raw' | 'sources'>,
  ): Written {
    this.#texts += 1;
    const value = texts.map(({ text }) => text);
    const shared = { id: `r${this.#texts}`, provider: 'lab', value };
    const blocks: PlainBlock[] = texts.map((block) =>
      replay ? { ...block, replay: shared } : block,
    );
    const whole: PlainBlock = { type: 'raw', provider: 'lab', value };
    if (raw === 'first') blocks.unshift(whole);
    if (raw === 'last') blocks.push(whole);
    const named = sources.map(({ seq, block }) => ({
      ...{ conversation: 'notes', seq },
      ...(block !== null && { block: block % blocks.length }),
    }));
    const each = new Map(named.map((of) => [JSON.stringify(of), of]));
    return { blocks, ...(each.size > 0 && { sources: [...each.values()] }) };
  }

  /** Whether both say the same. */
  #same(what: string, { status, body, code }: Answer, expected: Outcome): Outcome {
    if (status >= 500) throw new Error(`${what}: ${JSON.stringify(body)}`);
    const count = code === undefined ? what : `${what} ${code}`;
    this.#tally.set(count, (this.#tally.get(count) ?? 0) + 1);
    const { code: expectedCode, body: expectedBody } = expected;
    expect({ what, code, ...(code === undefined && { body: plainly(body) }) }).toEqual({
      ...{ what, code: expectedCode },
      ...(expectedCode === undefined && { body: expectedBody }),
    });
    return code === undefined ? { body: body as object } : { code };
  }
}

/** A handle, for whom it was opened, and how far it was read. */
interface Place {
  readonly handle: string | undefined;
  readonly readers: readonly string[];
  cursor: string | undefined;
  readonly given: string[];
}

/** A log beside its plain one. */
interface Pair {
  readonly log: TestLog;
  readonly plain: PlainLog;
  readonly places: Place[];
}

const MARKS = /t\d+ for ([a-z:+]+)/g;

function marked(text: string, audience: readonly string[] | undefined): PlainBlock {
  const named = audience === undefined ? 'all' : audience.join('+') || 'nobody';
  const [name = ''] = text.split(' ');
  return {
    type: 'text',
    text: `${name} for ${named}`,
    ...(audience !== undefined && { audience }),
  };
}

function read(log: TestLog, question: Question): Promise<Answer> {
  switch (question.what) {
    case 'compile':
      return log.compile();
    case 'preview':
      return log.preview();
    case 'pins':
      return log.pins();
    case 'session':
      return log.describe();
    case 'entries': {
      const after = question.after === undefined ? '' : `&after=${question.after}`;
      return log.entries(`limit=${question.limit}${after}`);
    }
    case 'search':
      return log.call('POST', '/search', { query: question.query, limit: question.limit });
    case 'summary input':
      return log.summaryInput(question.from, question.to);
  }
}

function bodyOf<Body>({ status, body }: Answer<Body>): Body | undefined {
  return status === 200 ? body : undefined;
}

/** An answer without what no rule foretells. */
function plainly(given: unknown): unknown {
  const body =
    typeof given === 'object' && given !== null && 'stats' in given
      ? plainCompile(given as CompiledLog)
      : given;
  const left = new Set(['decision', 'writtenAt', 'epoch', 'policyRevision', 'state']);
  const text = JSON.stringify(body);
  return JSON.parse(text, (key, value: unknown) => (left.has(key) ? undefined : value));
}

/** What of a compile the plain rules foretell. */
function plainCompile(compiled: CompiledLog) {
  const { entries, blocks } = compiled.stats;
  return {
    messages: entryMessages(compiled),
    provenance: entryProvenance(compiled),
    stats: { entries, blocks },
  };
}

export function pick<Value>(of: readonly Value[], n: number): Value {
  const value = of[n % of.length];
  if (value === undefined) throw new Error('there is none');
  return value;
}
