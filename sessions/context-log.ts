import { createHash } from 'node:crypto';
import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import {
  appendLog,
  closeSession,
  editLog,
  findAgent,
  forkLog,
  openNamespace,
  pinLog,
  raiseWatermark,
  readLog,
  setPrimaryAgent,
  type LogReading,
  type LogRefusal,
  type OpenedNamespace,
  type SessionCaller,
} from '../sql/context-log.ts';
import type { Database } from '../sql/database.ts';
import { writeSummary } from '../sql/log-compile.ts';
import { compileSettings, type CompileSettings } from './compile/compile-settings.ts';
import { CompileOptions } from './compile/compile-shape.ts';
import { LogEdit, LogEntry, LogName, StorableText } from './entry-shape.ts';
import { InjectionUnits, type InjectionUnit } from './injections.ts';
import {
  compileSession,
  injectUnits,
  type CompileAnswer,
  type InjectionOutcome,
} from './session-compile.ts';
import { AskedAgent, SummarizedRange, WrittenSummary } from './summary-shape.ts';
import {
  LogPage,
  LogRange,
  SearchedLog,
  SessionDescription,
  SummaryInput,
  SummaryList,
} from './view-shape.ts';

/** What a call of a log gives: its value with the decision that let it through, or a refusal. */
export type LogAnswer<Value> = Promise<
  ({ readonly ok: true; readonly decision: string } & Value) | LogRefusal
>;

/** Where an agent stands in a log: the handle that opening its namespace gave; the default one without. */
export interface Place {
  readonly namespace?: string | undefined;
}

/** Which namespace to open, and for whom. */
export const NamespaceRequest = z.strictObject({
  /** Omitted and empty are the default one. */
  name: z.union([z.literal(''), LogName]).optional(),
  /** The agent that stands there; the primary one unless it is named. A new name makes a new agent. */
  agent: LogName.optional(),
  /** The one reader that its views are for. Omitted: the one on record, or the session's audience. */
  reader: LogName.optional(),
  /** A namespace to derive it from, by its handle: its reader and its watermark are taken over. */
  from: z.uuid().optional(),
});
export type NamespaceRequest = z.infer<typeof NamespaceRequest>;

/**
 * The context log of one session, for one grant.
 *
 * Each call checks the grant live, that the session is the grant's, and that the caller holds it for this very
 * audience, in the statement that does the work. What is read goes through the view of a namespace, whose
 * watermark is raised first, in a transaction of its own; a raise that fails ends the call. Every read, and a fork, asks
 * first whether everything in the session's ledger still stands; if not, the session is quarantined.
 *
 * Inputs are checked, also those of callers without types: a wrong one is `invalid_input` with the place named.
 * Faults of the database are thrown.
 */
export interface ContextLog {
  /** The session, the agents in its log, the namespaces of this view's reader, and how much the view holds. */
  describe(place?: Place): LogAnswer<{ readonly result: SessionDescription }>;
  /**
   * Appends entries, all or none. The same key and entries again append nothing and give the same ids. To an `agent`, they
   * are written to its log; while a turn of it is alive they are held until that ends, which `held` tells.
   */
  append(
    key: string,
    entries: readonly LogEntry[],
    to?: { readonly agent?: string | undefined },
  ): LogAnswer<{ readonly ids: string[]; readonly held: boolean }>;
  /**
   * Puts blocks in the place of what the namespace shows of an entry, if it is still at `revision`. Refused as
   * `narrowing_refused` where a reader who may have been shown a block would lose it.
   */
  edit(
    entry: string,
    revision: bigint,
    edit: LogEdit,
    place?: Place,
  ): LogAnswer<{ readonly revision: string }>;
  /**
   * Entries in the order in which they changed, after a cursor. One that commits late is not skipped, and one that
   * was edited comes again. Of an `agent`, they are those of its own log, through its own place.
   */
  entries(
    page: {
      readonly limit: number;
      readonly after?: string | undefined;
      readonly agent?: string | undefined;
    },
    place?: Place,
  ): LogAnswer<{ readonly result: LogPage; readonly cursor?: string }>;
  /** Entries with a text that holds the query, letter case apart, in the order of the log. */
  search(
    question: { readonly query: string; readonly limit: number },
    place?: Place,
  ): LogAnswer<{ readonly result: SearchedLog }>;
  /**
   * What the model is sent, within a budget: each entry raw or under one summary, with where each message came from. It is on
   * record as sent when this returns. What the start's injections give is stored first.
   */
  compile(options?: CompileOptions, place?: Place): CompileAnswer;
  /** What a compile would give. It stores no injection and counts as no send; it is announced like every read. */
  preview(options?: CompileOptions, place?: Place): CompileAnswer;
  /** Stores what the sources of injected context gave at a start; the same again stores nothing. */
  inject(
    units: readonly InjectionUnit[],
    place?: Place,
  ): LogAnswer<{ readonly outcomes: InjectionOutcome[] }>;
  /** What a host's model is given to summarize: the entries from one to another, both among them, or summaries. */
  summaryInput(range: SummarizedRange, place?: Place): LogAnswer<{ readonly result: SummaryInput }>;
  /** Takes a summary for this view. The same key and summary again write nothing and give the same one. */
  summarize(
    key: string,
    summary: WrittenSummary,
    place?: Place,
  ): LogAnswer<{ readonly summary: string }>;
  /** The summaries of this view that stand. */
  summaries(place?: Place): LogAnswer<{ readonly result: SummaryList }>;
  pins(place?: Place): LogAnswer<{ readonly result: LogRange }>;
  pin(entries: readonly string[], place?: Place): LogAnswer<object>;
  unpin(entries: readonly string[], place?: Place): LogAnswer<object>;
  openNamespace(request: NamespaceRequest): LogAnswer<{ readonly namespace: OpenedNamespace }>;
  /** Begins a log of its own with what the namespace shows; the same name again gives the same fork. */
  fork(name: string, place?: Place): LogAnswer<{ readonly fork: string }>;
  /** Makes an agent of this log the one that the conversation's answers come from. */
  setPrimaryAgent(agent: string): LogAnswer<object>;
  /** Closes the session and its forks, for good. */
  close(): LogAnswer<object>;
}

const Key = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'is not a usable key');
const Ids = z.array(z.uuid()).min(1).max(1000);
const Limit = z.int().min(1).max(1000);

/**
 * Opens the log of a session for a grant whose token has been verified. Nothing is asked until a call is made.
 */
export function contextLog(
  database: Database,
  caller: SessionCaller,
  settings: CompileSettings = compileSettings(),
): ContextLog {
  async function read<Result>(
    reading: LogReading,
    place: Place | undefined,
    shape: z.ZodType<Result>,
    args: Readonly<Record<string, unknown>> = {},
  ): LogAnswer<{ readonly result: Result }> {
    const namespace = place?.namespace;
    const raised = await raiseWatermark(database, caller, namespace);
    if (!raised.ok) return raised;
    return readLog(database, caller, namespace, reading, args, raised.mark, shape);
  }

  const at = (place: Place | undefined) => ({
    ...{ database, caller, settings },
    namespace: place?.namespace,
  });

  /** The log of an agent, as whoever holds this session. */
  async function ofAgent(name: string) {
    const answer = await findAgent(database, caller, name);
    if (!answer.ok) return answer;
    const { session, agent, handle } = answer.found;
    const log = contextLog(database, { ...caller, session }, settings);
    return { ...answer, agent, log, caller: { ...caller, session }, handle };
  }

  return {
    describe: (place) =>
      checked({ place, ...held(caller) }, () => read('session', place, SessionDescription)),

    append: (key, entries, { agent } = {}) =>
      checked({ ...held(caller), key, entries, agent }, async (sound) => {
        const written = sound.entries ?? [];
        if (agent === undefined) {
          return appendLog(database, caller, key, digestOf(written), written);
        }
        const found = await ofAgent(agent);
        if (!found.ok) return found;
        const digest = digestOf([written, found.agent]);
        return appendLog(database, found.caller, key, digest, written, found.agent);
      }),

    edit: (entry, revision, edit, place) =>
      checked({ ...held(caller), ids: [entry], edit, place }, () =>
        editLog(database, caller, place?.namespace, entry, revision, edit),
      ),

    entries: ({ limit, after, agent }, place) =>
      checked({ ...held(caller), limit, after, agent, place }, async () => {
        if (agent !== undefined) {
          if (place?.namespace !== undefined) {
            const detail = 'agent, namespace: name two places, and a log is read through one';
            return refuse('invalid_input', { detail });
          }
          const found = await ofAgent(agent);
          if (!found.ok) return found;
          return found.log.entries({ limit, after }, { namespace: found.handle });
        }
        const [afterId, afterRevision] = after?.split('.') ?? [];
        const answer = await read('entries', place, LogPage, {
          limit: limit.toString(),
          ...(afterId !== undefined && afterRevision !== undefined && { afterId, afterRevision }),
        });
        if (!answer.ok) return answer;
        const last = answer.result.entries.at(-1);
        const cursor = last === undefined ? after : `${last.id}.${last.revision}`;
        return { ...answer, ...(cursor !== undefined && { cursor }) };
      }),

    search: ({ query, limit }, place) =>
      checked({ ...held(caller), query, limit, place }, () =>
        read('search', place, SearchedLog, { query, limit: limit.toString() }),
      ),

    compile: (options, place) =>
      checked({ ...held(caller), options, place }, ({ options: sound = {} }) =>
        compileSession(at(place), 'compile', sound.injections ?? [], sound),
      ),
    preview: (options, place) =>
      checked({ ...held(caller), options, place }, ({ options: sound = {} }) =>
        compileSession(at(place), 'preview', sound.injections ?? [], sound),
      ),
    inject: (units, place) =>
      checked({ ...held(caller), units, place }, ({ units: sound = [] }) =>
        injectUnits(at(place), sound),
      ),

    summaryInput: (range, place) =>
      checked({ ...held(caller), range, place }, () =>
        read('summary_input', place, SummaryInput, range),
      ),
    summarize: (key, summary, place) =>
      checked({ ...held(caller), key, summary, place }, ({ summary: sound }) =>
        writeSummary(database, caller, place?.namespace, key, digestOf([sound, place]), sound),
      ),
    summaries: (place) =>
      checked({ ...held(caller), place }, () => read('summaries', place, SummaryList)),

    pins: (place) => checked({ ...held(caller), place }, () => read('pins', place, LogRange)),
    pin: (ids, place) =>
      checked({ ...held(caller), ids, place }, () =>
        pinLog(database, caller, place?.namespace, ids, true),
      ),
    unpin: (ids, place) =>
      checked({ ...held(caller), ids, place }, () =>
        pinLog(database, caller, place?.namespace, ids, false),
      ),

    openNamespace: (request) =>
      checked({ ...held(caller), request }, () =>
        openNamespace(database, caller, {
          ...request,
          name: request.name === undefined || request.name === '' ? 'default' : request.name,
        }),
      ),

    fork: (name, place) =>
      checked({ ...held(caller), name, place }, () =>
        forkLog(database, caller, place?.namespace, name),
      ),
    setPrimaryAgent: (name) =>
      checked({ ...held(caller), name }, () => setPrimaryAgent(database, caller, name)),
    close: () => checked(held(caller), () => closeSession(database, caller)),
  };
}

/** What any call may be given. */
const Given = z.strictObject({
  session: z.uuid(),
  audience: z.string().regex(/^[0-9a-f]{64}$/, 'is not a fingerprint'),
  place: z.strictObject({ namespace: z.uuid().optional() }).optional(),
  key: Key.optional(),
  entries: z.array(LogEntry).min(1).max(100).optional(),
  edit: LogEdit.optional(),
  ids: Ids.optional(),
  name: LogName.optional(),
  query: StorableText.min(1).max(1000).optional(),
  limit: Limit.optional(),
  after: z
    .string()
    .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[1-9][0-9]{0,18}$/, 'is not a cursor')
    .optional(),
  request: NamespaceRequest.optional(),
  options: CompileOptions.optional(),
  units: InjectionUnits.optional(),
  range: SummarizedRange.optional(),
  summary: WrittenSummary.optional(),
  agent: AskedAgent.optional(),
});

/** The digest of what is asked, in the order of its shape, however it was written. */
function digestOf(entries: unknown): Uint8Array {
  return createHash('sha256').update(JSON.stringify(entries)).digest();
}

/** The session and the audience that a caller names: neither may be missing, null or empty. */
function held({ session, audienceHash }: SessionCaller): { session: string; audience: string } {
  return { session, audience: audienceHash };
}

/** Runs a call whose inputs are sound; another is refused, saying where. */
async function checked<Answer>(
  given: Readonly<Record<string, unknown>>,
  call: (sound: z.infer<typeof Given>) => Promise<Answer>,
): Promise<Answer | Refusal> {
  const parsed = Given.safeParse(given);
  if (parsed.success) return call(parsed.data);
  const [issue] = parsed.error.issues;
  const detail = `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`;
  return refuse('invalid_input', { detail });
}

export type { LogEdit, LogEntry };
