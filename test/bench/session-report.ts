import { DURABLE, PRIMARY_KEY, SECURED } from './floor.ts';
import { byName } from './measurement.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';
import { CALLS, caseName, WAYS, type Way } from './session-cases.ts';
import { USES, type Use } from './session-logs.ts';
import type { SessionResult } from './session-measurement.ts';

/** The tables of a run, by what each is about. */
export function sessionTables(result: SessionResult): Record<string, Table> {
  const lengths = [...new Set(result.logs.map(({ length }) => length))];
  return {
    'What the calls of a log stand beside': floorTable(result),
    'The logs': sizeTable(result),
    ...Object.fromEntries(
      lengths.map((length) => [`A log of ${grouped(length)} entries`, callTable(result, length)]),
    ),
    'Beside a table of the host’s own: the same blocks by a plain select': plainTable(
      result,
      lengths,
    ),
  };
}

/** The floor of a run. */
export function floorTable({ measured }: Pick<SessionResult, 'measured'>): Table {
  const find = byName(measured);
  const lookup = find(PRIMARY_KEY).p50;
  return {
    head: ['', 'p50 ms', 'p95 ms', '× lookup'],
    rows: ['select 1', PRIMARY_KEY, SECURED, DURABLE].map((name) => {
      const { p50, p95 } = find(name);
      return [name, ms(p50), ms(p95), digits(p50 / lookup)];
    }),
  };
}

function sizeTable({ logs }: SessionResult): Table {
  return {
    head: ['entries', 'for some readers', 'blocks', 'of these for some readers', 'MB of JSON'],
    rows: logs.map(({ length, use, blocks, restricted, bytes }) => [
      ...[grouped(length), use, grouped(blocks), grouped(restricted)],
      digits(bytes / 1_000_000),
    ]),
  };
}

/** The calls of one length: unused beside the floor, and what each use adds to it. */
function callTable({ measured }: SessionResult, length: number): Table {
  const find = byName(measured);
  const [lookup, durable] = [find(PRIMARY_KEY).p50, find(DURABLE).p50];
  const used = USES.filter((use) => use !== 'unused');
  return {
    head: [
      ...['', 'unused: p50 ms', 'p95 ms', '× lookup', '× durable insert'],
      ...used.flatMap((use) => [`${use}: p50 ms`, 'p95 ms', '÷ unused']),
    ],
    rows: CALLS.map((way) => {
      const { p50, p95 } = find(caseName(way, length, 'unused'));
      return [
        ...[WAYS[way], ms(p50), ms(p95), digits(p50 / lookup), digits(p50 / durable)],
        ...used.flatMap((use) => {
          const other = find(caseName(way, length, use));
          return [ms(other.p50), ms(other.p95), digits(other.p50 / p50)];
        }),
      ];
    }),
  };
}

function plainTable({ measured }: SessionResult, lengths: readonly number[]): Table {
  const find = byName(measured);
  return {
    head: [
      ...['entries, for some readers', 'plain select, p50 ms', 'view alone', '÷ plain'],
      ...['compile', '÷ plain', 'plain select of 100', 'page of 100', '÷ plain'],
    ],
    rows: lengths.flatMap((length) =>
      USES.map((use: Use) => {
        const p50 = (way: Way) => find(caseName(way, length, use)).p50;
        const beside = (way: Way, plain: Way) => [ms(p50(way)), digits(p50(way) / p50(plain))];
        return [
          ...[`${grouped(length)}, ${use}`, ms(p50('plain'))],
          ...[...beside('view', 'plain'), ...beside('compile', 'plain')],
          ...[ms(p50('plainPage')), ...beside('page', 'plainPage')],
        ];
      }),
    ),
  };
}

/** The section of docs/benchmarks.md. */
export function sessionSection(result: SessionResult, where: string, command: string): string {
  return [
    '## Sessions',
    '',
    `Made by \`${command}\` on ${where}.`,
    `${grouped(result.compared)} answers of the logs were compared with what had been appended before anything was ` +
      'measured, and were the same.',
    'Everything was measured in turns in one run; p50 and p95 are over at least five samples.',
    '',
    'An entry has one to three blocks with some 400 characters of text; every third one has a call of a tool. Logs are ' +
      'filled by the product’s own door under a grant for a thread of five people, and read through the default ' +
      'namespace. A text is for everybody (unused), or one text in a hundred or every text names its readers: these five, and up ' +
      'to three others. The view shows the whole log each time, so that the calls differ by the field alone.',
    '',
    'Every call checks the grant and records what was decided; one that reads also raises the watermark before, and commits ' +
      'that. Each log is there twice: what is appended and edited goes to the second, which grows by it. Entries ' +
      'name no messages that they came from. A compile stores nothing before it and has no summaries; it counts the tokens of all that ' +
      'it sends, from memory after the first time, and puts on record that it was sent.',
    '',
    ...Object.entries(sessionTables(result)).flatMap(([title, table]) => [
      `### ${title}`,
      '',
      markdown(table),
      '',
    ]),
    'The plain select and the view alone run in the same database by a login that no row security holds, and are neither ' +
      'checked nor recorded.',
  ].join('\n');
}
