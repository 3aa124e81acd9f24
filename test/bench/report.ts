import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, totalmem } from 'node:os';
import type { Sizes } from './dataset.ts';

const PAGE = new URL('../../docs/benchmarks.md', import.meta.url);
const CHARTS = new URL('../../docs/benchmarks/', import.meta.url);

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A table in Markdown: the first column to the left, figures to the right. */
export function markdown({ head, rows }: Table): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, index) => (index === 0 ? '---' : '---:'));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

/** The same for a terminal. */
export function plain({ head, rows }: Table): string {
  const widths = head.map((cell, index) =>
    Math.max(cell.length, ...rows.map((row) => row[index]?.length ?? 0)),
  );
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, index) =>
          index === 0 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
        )
        .join('  '),
    )
    .join('\n');
}

/** Milliseconds in three digits. */
export function ms(value: number | undefined): string {
  return value === undefined ? '' : digits(value);
}

export function digits(value: number): string {
  return value >= 100 ? Math.round(value).toString() : Number(value.toPrecision(3)).toString();
}

export function grouped(value: number): string {
  return value.toLocaleString('en-US');
}

/** What a figure was measured on, without saying whose machine it is. */
export function machine(serverVersion: string, sizes: Sizes): string {
  const [cpu] = cpus();
  const gigabytes = Math.round(totalmem() / 1024 ** 3);
  return (
    `${availableParallelism()} cores (${cpu?.model.trim() ?? 'unknown'}), ${gigabytes} GB, ` +
    `Node ${process.versions.node}, PostgreSQL ${serverVersion}; seed ${sizes.seed}, ` +
    `${grouped(sizes.users)} users, ${grouped(sizes.conversations)} conversations, ` +
    `${grouped(sizes.memberships)} memberships, ${grouped(sizes.projects)} projects, ` +
    `${grouped(sizes.messages)} messages`
  );
}

/** Puts a bench's section into docs/benchmarks.md, in place of its earlier one, and its charts beside it. */
export async function writeSection(
  name: string,
  text: string,
  charts: Readonly<Record<string, string>>,
): Promise<void> {
  await mkdir(CHARTS, { recursive: true });
  for (const [file, content] of Object.entries(charts)) {
    await writeFile(new URL(`${file}.svg`, CHARTS), content);
  }
  const page = await readFile(PAGE, 'utf8');
  await writeFile(PAGE, withSection(page, name, text));
}

/** A page with a section between its two marks replaced, or added at the end. */
export function withSection(page: string, name: string, text: string): string {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const section = `${begin}\n\n${text.trim()}\n\n${end}`;
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) return `${page.trimEnd()}\n\n${section}\n`;
  return page.slice(0, from) + section + page.slice(to + end.length);
}
