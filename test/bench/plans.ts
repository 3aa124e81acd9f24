import postgres from 'postgres';
import { z } from 'zod';
import { parseDatabaseUrl, socketPath } from '../../sql/database-url.ts';

/** A node of a plan as EXPLAIN has it in JSON, with what happened. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string | undefined;
  readonly 'Index Name'?: string | undefined;
  readonly 'Index Cond'?: string | undefined;
  readonly 'Actual Rows'?: number | undefined;
  readonly 'Actual Loops'?: number | undefined;
  readonly Plans?: readonly PlanNode[] | undefined;
}

const PlanNode: z.ZodType<PlanNode> = z.object({
  'Node Type': z.string(),
  'Relation Name': z.string().optional(),
  'Index Name': z.string().optional(),
  'Index Cond': z.string().optional(),
  'Actual Rows': z.number().optional(),
  'Actual Loops': z.number().optional(),
  get Plans() {
    return z.array(PlanNode).optional();
  },
});
const Explained = z.object({ 'Query Text': z.string(), Plan: PlanNode });

/** A statement that ran inside another one, and the plan it ran by. */
export interface NestedPlan {
  readonly text: string;
  readonly plan: PlanNode;
}

/**
 * Runs statements one after the other on one connection of a superuser and gives the plan of every
 * statement that the last one ran, those inside of functions included, in the order in which they ended.
 *
 * @param format `json` to read, `text` to print
 */
export async function explainNested(
  superuserUrl: string,
  statements: readonly string[],
  format: 'json' | 'text',
): Promise<string[]> {
  const address = parseDatabaseUrl(superuserUrl);
  const path = socketPath(address);
  const notices: string[] = [];
  // The product's own driver settings drop what auto_explain says.
  const sql = postgres({
    host: address.host,
    port: address.port,
    ...(path !== undefined && { path }),
    user: address.user,
    pass: address.password,
    database: address.database,
    max: 1,
    onnotice: ({ message }) => message !== undefined && notices.push(message),
  });
  try {
    // Doors say nothing below a warning.
    await sql.unsafe(`
      load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on;
      set auto_explain.log_buffers = on; set auto_explain.log_nested_statements = on;
      set auto_explain.log_timing = on; set auto_explain.log_format = '${format}';
      set auto_explain.log_level = warning`);
    for (const statement of statements) {
      notices.length = 0;
      await sql.unsafe(statement);
    }
    return notices.filter((notice) => notice.startsWith('duration:'));
  } finally {
    await sql.end();
  }
}

/** {@link explainNested}, read. */
export async function nestedPlans(
  superuserUrl: string,
  statements: readonly string[],
): Promise<NestedPlan[]> {
  const notices = await explainNested(superuserUrl, statements, 'json');
  return notices.map((notice) => {
    const { 'Query Text': text, Plan: plan } = Explained.parse(
      JSON.parse(notice.slice(notice.indexOf('{'))),
    );
    return { text, plan };
  });
}

/** Every node of a plan. */
export function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}
