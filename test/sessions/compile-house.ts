import type {
  CompiledLog,
  CompileOptions,
  OverBudget,
} from '../../sessions/compile/compile-shape.ts';
import { ok, type Answer } from '../support/gateway.ts';
import { entry, type TestLog } from '../support/log.ts';
import { said, type LogHouse } from './log-house.ts';

/** How tokens are counted where a test counts with: a quarter of the characters, and four for a message. */
export const COUNTED = { estimator: 'characters' } as const satisfies CompileOptions;

/** A text that begins with a word, as long as it takes for its message to have so many tokens. */
export function worth(tokens: number, word = ''): { type: 'text'; text: string } {
  return { type: 'text', text: word.padEnd(4 * (tokens - 4), '.') };
}

/** What people said, of so many tokens. */
export const saying = (tokens: number, word?: string) => said(worth(tokens, word));

/** The text of a summary of so many entries that costs so many tokens with what is said of it. */
export function summaryWorth(tokens: number, entries: number, word = ''): string {
  const said = `[a summary of ${entries.toString()} earlier entries]\n`;
  return word.padEnd(4 * (tokens - 4) - said.length, '.');
}

export const call = (id: string, args: unknown = {}) =>
  entry({ type: 'tool_call', id, name: 'look', arguments: args });
/** A result whose message has so many tokens. */
export const result = (id: string, tokens = 20) =>
  entry({ type: 'tool_result', call: id, content: [worth(tokens - 4)] });

/** The messages of a compile in short: of an entry its number in the log, of a summary its level. */
export async function sentOf(
  log: TestLog,
  ids: readonly string[],
  options: CompileOptions = {},
): Promise<{ readonly sent: string[]; readonly stats: CompiledLog['stats'] }> {
  const { provenance, stats } = ok(await log.compile({ ...COUNTED, ...options }));
  const sent = provenance.map(({ kind, entry: id = '', level = 0 }) => {
    if (kind === 'summary') return `L${level.toString()}`;
    return kind === 'entry' ? ids.indexOf(id).toString() : kind;
  });
  return { sent, stats };
}

/** How far a compile is over its budget, and what its refusal says of that. */
export function overOf({ status, code, body }: Answer): OverBudget & { readonly decision: string } {
  if (status !== 422 || code !== 'over_budget') throw new Error(JSON.stringify(body));
  const { over, decision } = body as { over: OverBudget; decision: string };
  return { ...over, decision };
}

/** A log of these entries. */
export async function logOf({ enter }: LogHouse, ...entries: readonly object[]) {
  const entered = await enter();
  const ids = entries.length > 0 ? await entered.log.append(...entries) : [];
  return { ...entered, ids, at: (index: number) => ids[index] ?? '' };
}

/** What there is in the database of a session's log, but for decisions. */
export async function stateOf({ gateway }: LogHouse, { session }: Pick<TestLog, 'session'>) {
  const [row] = await gateway.owner`
    select (select jsonb_agg(l order by l.namespace) from earshot.log_sends l where l.session_id = ${session}) as sends,
      (select count(*) from earshot.log_entries where session_id = ${session}) as entries,
      (select count(*) from earshot.log_summaries where session_id = ${session}) as summaries,
      (select count(*) from earshot.ledger_entries where session_id = ${session}) as ledger,
      (select count(*) from earshot.turn_places where session_id = ${session}) as places`;
  return row;
}

/** A compile without what is new at each call. */
export async function bytesOf(
  log: TestLog,
  options?: CompileOptions,
  by: 'compile' | 'preview' = 'compile',
): Promise<string> {
  const answer: object & { decision?: string } = ok(await log[by](options));
  const { decision: _, ...compiled } = answer;
  return JSON.stringify(compiled);
}

/** What is on record of an answer. */
export async function decisionOf({ gateway }: LogHouse, { body }: Answer) {
  const { decision = '' } = body as { decision?: string };
  const [row] = await gateway.owner`
    select kind, tool, verdict, code, items from earshot.decisions where id = ${decision}`;
  return row;
}
