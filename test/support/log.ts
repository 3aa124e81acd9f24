import { randomUUID } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import type { CompiledLog, CompileOptions } from '../../sessions/compile/compile-shape.ts';
import type { InjectionUnit } from '../../sessions/injections.ts';
import type { SummarizedRange } from '../../sessions/summary-shape.ts';
import type {
  LogPage,
  LogRange,
  SearchedLog,
  SessionDescription,
  SummaryInput,
  SummaryList,
} from '../../sessions/view-shape.ts';
import { ok, type Answer, type TestGateway } from './gateway.ts';
import type { TestTurn } from './organization.ts';

/** A text, for everybody or for the readers that are named. */
export function text(text: string, ...audience: string[]) {
  return { type: 'text', text, ...(audience.length > 0 && { audience }) };
}

/** What an agent wrote, of blocks. */
export function entry(...blocks: object[]) {
  return { role: 'agent', participant: 'assistant', blocks };
}

/** The messages of a compile that are entries of the log: no marker, no summary and no injection. */
export function entryMessages({ messages, provenance }: CompiledLog): CompiledLog['messages'] {
  return messages.filter((_, nth) => provenance[nth]?.kind === 'entry');
}

/** Of what something came from, the messages. */
export function messagesAmong(sources: CompiledLog['provenance'][number]['sources'] = []) {
  return sources.flatMap((source) => ('artifact' in source ? [] : [source]));
}

/** What a compile tells of where these come from. */
export function entryProvenance({ provenance }: CompiledLog) {
  return provenance
    .filter(({ kind }) => kind === 'entry')
    .map(({ entry, revision, sources }) => ({
      ...{ entry, revision },
      ...(sources !== undefined && { sources }),
    }));
}

type Page = Omit<z.infer<typeof LogPage>, 'more'> & { cursor?: string; complete: boolean };
export interface Opened {
  readonly name: string;
  readonly agent: string;
  readonly handle: string;
  readonly reader?: string;
}

/** The log of a session over HTTP, as a grant sees it through one namespace. */
export interface TestLog {
  readonly session: string;
  /** Another place in the same log. */
  through(handle: string | undefined): TestLog;
  /** The same session by another turn's grant. */
  by(turn: Pick<TestTurn, 'grant'>): TestLog;
  call<Body = unknown>(
    method: string,
    path: string,
    json?: object,
    key?: string,
  ): Promise<Answer<Body>>;
  /** Appends entries and gives their ids. */
  append(...entries: object[]): Promise<string[]>;
  tryAppend(entries: readonly unknown[], key?: string): Promise<Answer<{ ids: string[] }>>;
  edit(
    id: string,
    revision: string,
    blocks: readonly object[],
  ): Promise<Answer<{ revision: string }>>;
  compile(options?: CompileOptions): Promise<Answer<CompiledLog>>;
  /** The texts of a compile, in order, the marker at its end apart. */
  texts(options?: CompileOptions): Promise<string[]>;
  preview(options?: CompileOptions): Promise<Answer<CompiledLog>>;
  inject(...units: InjectionUnit[]): Promise<Answer<{ outcomes: string[] }>>;
  trySummarize(summary: object, key?: string): Promise<Answer<{ summary: string }>>;
  /** Summarizes entries, from one to another, or summaries, as a host does: from their input. */
  summarize(range: SummarizedRange, text: string): Promise<string>;
  summaries(): Promise<Answer<SummaryList>>;
  entries(query?: string): Promise<Answer<Page>>;
  search(query: string): Promise<Answer<SearchedLog>>;
  summaryInput(from: string, to: string): Promise<Answer<SummaryInput>>;
  pins(): Promise<Answer<LogRange>>;
  pin(id: string): Promise<Answer>;
  unpin(id: string): Promise<Answer>;
  describe(): Promise<Answer<SessionDescription>>;
  tryOpen(request: object): Promise<Answer<Opened>>;
  open(request: object): Promise<Opened>;
  tryFork(name: string): Promise<Answer<{ session: string }>>;
  /** The log of a fork. */
  fork(name: string): Promise<TestLog>;
  close(): Promise<Answer>;
}

interface At {
  readonly session: string;
  readonly token: string;
  readonly audienceHash: string;
  readonly namespace?: string | undefined;
}

/** The log of the session of a turn. */
export function logOf(
  { send }: Pick<TestGateway, 'send'>,
  { grant }: Pick<TestTurn, 'grant'>,
): TestLog {
  return logAt(send, {
    session: grant.sessionId,
    token: grant.token,
    audienceHash: grant.audienceHash,
  });
}

function logAt(send: TestGateway['send'], at: At): TestLog {
  function call<Body>(method: string, path: string, json?: object, key?: string) {
    const placed = path !== '/entries' || method === 'GET';
    const global = /^\/(namespaces|primary|close)$/.test(path) || !placed;
    const [route, query = ''] = path.split('?');
    const namespace = at.namespace === undefined || global ? '' : `&namespace=${at.namespace}`;
    const asked = query === '' ? '' : `&${query}`;
    return send(
      method,
      `/v1/sessions/${at.session}${route}?audience=${at.audienceHash}${namespace}${asked}`,
      { token: at.token, ...(json !== undefined && { json }), ...(key !== undefined && { key }) },
    ) as Promise<Answer<Body>>;
  }
  const log: TestLog = {
    session: at.session,
    through: (namespace) => logAt(send, { ...at, namespace }),
    by: ({ grant }) => logAt(send, { ...at, token: grant.token, audienceHash: grant.audienceHash }),
    call,
    tryAppend: (entries, key = randomUUID()) => call('POST', '/entries', { entries }, key),
    append: async (...entries) => ok(await log.tryAppend(entries)).ids,
    edit: (id, revision, blocks) => call('PATCH', `/entries/${id}`, { revision, edit: { blocks } }),
    compile: (options) => call('POST', '/compile', options),
    texts: async (options) => {
      const { messages, provenance } = ok(await log.compile(options));
      return messages
        .filter((_, nth) => provenance[nth]?.kind !== 'marker')
        .flatMap(({ content }) => content.map((block) => String(block.text)));
    },
    preview: (options) => call('POST', '/preview', options),
    inject: (...injections) => call('POST', '/injections', { injections }),
    trySummarize: (summary, key = randomUUID()) => call('POST', '/summaries', summary, key),
    summarize: async (range, text) => {
      const { state } = ok(await call<SummaryInput>('POST', '/summary-input', range));
      return ok(await log.trySummarize({ ...range, ...(state !== undefined && { state }), text }))
        .summary;
    },
    summaries: () => call('GET', '/summaries'),
    entries: (query = '') => call('GET', query === '' ? '/entries' : `/entries?${query}`),
    search: (query) => call('POST', '/search', { query }),
    summaryInput: (from, to) => call('POST', '/summary-input', { from, to }),
    pins: () => call('GET', '/pins'),
    pin: (id) => call('PUT', `/pins/${id}`),
    unpin: (id) => call('DELETE', `/pins/${id}`),
    describe: () => call('GET', ''),
    tryOpen: (request) => call('POST', '/namespaces', request),
    open: async (request) => ok(await log.tryOpen(request)),
    tryFork: (name) => call('POST', '/fork', { name }),
    fork: async (name) => {
      const { session } = ok(await log.tryFork(name));
      return logAt(send, { ...at, session, namespace: undefined });
    },
    close: () => call('POST', '/close'),
  };
  return log;
}
