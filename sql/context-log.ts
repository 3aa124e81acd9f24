import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import { changesOf, type AudienceChanges } from './grants.ts';

/** What proves a call of a session: a grant's digest, the session, and the audience that it is held for. */
export interface SessionCaller {
  /** SHA-256 of the id of a token that has been verified. */
  readonly digest: Uint8Array;
  readonly session: string;
  /** The fingerprint, in hex. */
  readonly audienceHash: string;
}

export type LogRefusal = Refusal & { readonly changes?: AudienceChanges };
export type Answered<Value> =
  ({ readonly ok: true; readonly decision: string } & Value) | LogRefusal;

/** The ways in which a log is read. */
export type LogReading =
  'session' | 'compile' | 'preview' | 'entries' | 'search' | 'summary_input' | 'summaries' | 'pins';

const DoorRow = z.looseObject({
  code: z.string().nullable(),
  changes: z.unknown(),
  decision_id: z.string().nullable(),
});

/** What a door of the log answered: its value, or the refusal that it names. */
export function answered<Value>(
  raw: unknown,
  value: (row: z.infer<typeof DoorRow>) => Value,
): Answered<Value> {
  const row = DoorRow.parse(raw);
  if (row.code !== null) {
    return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
  }
  if (row.decision_id === null) return refuse('fault');
  return { ok: true, decision: row.decision_id, ...value(row) };
}

/**
 * Raises the watermark of a namespace to where the log is now, committed when this returns: what the read that
 * follows may see. A read that was not announced so is refused.
 */
export async function raiseWatermark(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
): Promise<{ readonly ok: true; readonly mark: string } | LogRefusal> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.raise_watermark(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null})`,
  );
  const row = DoorRow.extend({ mark: z.string().nullable() }).parse(raw);
  if (row.code !== null) {
    return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
  }
  return row.mark === null ? refuse('fault') : { ok: true, mark: row.mark };
}

/** Reads a log through a namespace, as it was at a mark: live check, session, ledger and view in one statement. */
export async function readLog<Result>(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  reading: LogReading,
  args: Readonly<Record<string, unknown>>,
  mark: string,
  shape: z.ZodType<Result>,
): Promise<Answered<{ readonly result: Result }>> {
  const [raw] = await retrying(
    () => sql`
    select * from earshot.read_log(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
      ${namespace ?? null}, ${reading}, ${JSON.stringify(args)}::text::jsonb, ${mark})`,
  );
  return answered(raw, (row) => ({ result: shape.parse(row.result) }));
}

/**
 * Appends entries, all or none. The same key and digest again append nothing and give the same ids. With an agent, they are
 * written to that one of this log, and `held` is whether they wait for its turns to end.
 */
export async function appendLog(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  key: string,
  requestDigest: Uint8Array,
  entries: readonly unknown[],
  agent?: string,
): Promise<Answered<{ readonly ids: string[]; readonly held: boolean }>> {
  const [raw] = await retrying(
    () => sql`
      select *, to_json(ids) as ids from earshot.append_log(${Buffer.from(digest)}, ${session},
        decode(${audienceHash}, 'hex'), ${key}, ${Buffer.from(requestDigest)}, ${JSON.stringify(entries)}::text::jsonb,
        ${agent ?? null})`,
  );
  return answered(raw, ({ ids, held }) => ({
    ids: z.array(z.string()).parse(ids),
    held: z.boolean().nullable().parse(held) ?? false,
  }));
}

const FoundAgent = z.object({ session: z.string(), agent: z.string(), handle: z.string() });
export type FoundAgent = z.infer<typeof FoundAgent>;

/** Where an agent of this name has its log; where there is none, the refusal names those that there are. */
export async function findAgent(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  name: string,
): Promise<Answered<{ readonly found: FoundAgent }>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.find_agent(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'), ${name})`,
  );
  const answer = answered(raw, ({ place }) => ({ found: FoundAgent.parse(place) }));
  if (answer.ok || answer.code !== 'not_found') return answer;
  const { names, more } = KnownAgents.parse(raw).known;
  const others = more > 0 ? ` and ${more.toString()} more` : '';
  return { ...answer, detail: `There is no such agent; there are ${names.join(', ')}${others}.` };
}

const KnownAgents = z.looseObject({
  known: z.object({ names: z.array(z.string()), more: z.int() }),
});

/** Writes a new revision of an entry that the editor sees at a revision. */
export async function editLog(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  entry: string,
  revision: bigint,
  edit: unknown,
): Promise<Answered<{ readonly revision: string }>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.edit_log(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null}, ${entry}, ${revision.toString()}, ${JSON.stringify(edit)}::text::jsonb)`,
  );
  return answered(raw, (row) => ({ revision: z.string().parse(row.revision) }));
}

const OpenedNamespace = z.object({
  name: z.string(),
  agent: z.string(),
  handle: z.string(),
  reader: z.string().optional(),
});
export type OpenedNamespace = z.infer<typeof OpenedNamespace>;

/** Opens an agent's place in a log. Another reader's is a conflict, and nothing is registered. */
export async function openNamespace(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: {
    readonly name: string;
    readonly agent?: string | undefined;
    readonly reader?: string | undefined;
    readonly from?: string | undefined;
  },
): Promise<Answered<{ readonly namespace: OpenedNamespace }>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.open_namespace(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace.name}, ${namespace.agent ?? null}, ${namespace.reader ?? null}, ${namespace.from ?? null})`,
  );
  return answered(raw, ({ opened }) => ({ namespace: OpenedNamespace.parse(opened) }));
}

/** Pins entries that a namespace shows, or takes their pins away. */
export async function pinLog(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  entries: readonly string[],
  pinned: boolean,
): Promise<Answered<object>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.pin_log(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null}, ${sql.array([...entries])}::uuid[], ${pinned})`,
  );
  return answered(raw, () => ({}));
}

/** Forks a log: the fork's session id. The same name again gives the same fork. */
export async function forkLog(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  name: string,
): Promise<Answered<{ readonly fork: string }>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.fork_log(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null}, ${name})`,
  );
  return answered(raw, ({ fork }) => ({ fork: z.string().parse(fork) }));
}

/** Makes an agent of the log the primary one. */
export async function setPrimaryAgent(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  agent: string,
): Promise<Answered<object>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.set_primary_agent(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'), ${agent})`,
  );
  return answered(raw, () => ({}));
}

/** Closes a session and its forks, for good. */
export async function closeSession(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
): Promise<Answered<object>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.close_session(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'))`,
  );
  return answered(raw, () => ({}));
}
