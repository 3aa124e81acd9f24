import { markChart } from './chart.ts';
import { DURABLE, PRIMARY_KEY } from './floor.ts';
import { byName, type Measurement } from './measurement.ts';
import type { RecallResult } from './recall-bench.ts';
import { recallProse, recallTables, share } from './recall-report.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';
import type { SearchResult } from './search-measurement.ts';
import { BROAD, broadName, EARSHOT, ROW_SECURITY } from './search-peers.ts';
import { setName } from './search-questions.ts';

/** The tables of searching, by what each is about. */
export function searchTables(result: SearchResult): Record<string, Table> {
  const find = byName(result.measured);
  const lookup = find(PRIMARY_KEY).p50;
  const durable = find(DURABLE).p50;
  return {
    'Search by Earshot: check, scope, ten best, ledger and record in one committed statement': {
      head: [
        ...['audience, query', 'conversations', 'messages in scope', 'p50 ms', 'p95 ms'],
        ...['× lookup', '× durable insert', 'µs a message'],
      ],
      rows: result.sets.map((set) => {
        const { p50, p95 } = find(`${EARSHOT}: ${setName(set)}`);
        const [least, most] = result.scopes.get(set.group.name) ?? [0, 0];
        return [
          setName(set),
          least === most ? grouped(most) : `${grouped(least)} to ${grouped(most)}`,
          grouped(Math.round(set.scoped)),
          ...[ms(p50), ms(p95), digits(p50 / lookup), digits(p50 / durable)],
          digits((p50 * 1_000) / set.scoped),
        ];
      }),
    },
    'What somebody would do instead, p50 ms': peerTable(result),
    'What filtering afterwards loses': {
      head: [
        'audience, query',
        ...BROAD.flatMap((first) => [
          `recall@10 of ${grouped(first)}`,
          `nothing left of ${grouped(first)}`,
        ]),
      ],
      rows: result.sets.map((set) => [
        setName(set),
        ...BROAD.flatMap((first) => {
          const loss = result.losses.find((one) => one.set === set && one.first === first);
          return loss === undefined ? ['', ''] : [share(loss.recall10), share(loss.empty)];
        }),
      ]),
    },
  };
}

function columns({ measured, sets }: SearchResult) {
  const times = new Map(measured.map((one: Measurement) => [one.name, one.p50]));
  return [EARSHOT, ...BROAD.map(broadName), ROW_SECURITY].map((name) => ({
    name,
    values: new Map(
      sets.flatMap((set) => {
        const time = times.get(`${name}: ${setName(set)}`);
        return time === undefined ? [] : [[setName(set), time] as const];
      }),
    ),
  }));
}

function peerTable(result: SearchResult): Table {
  const series = columns(result);
  return {
    head: ['audience, query', ...series.map(({ name }) => name)],
    rows: result.sets.map((set) => [
      setName(set),
      ...series.map(({ values }) => ms(values.get(setName(set)))),
    ]),
  };
}

/** The section of docs/benchmarks.md and its chart. */
export function searchSection(
  result: SearchResult,
  recall: RecallResult,
  where: string,
  command: string,
): { text: string; charts: Record<string, string> } {
  const tables = (all: Record<string, Table>) =>
    Object.entries(all).flatMap(([title, table]) => [`### ${title}`, '', markdown(table), '']);
  const text = [
    '## Search',
    '',
    `Made by \`${command}\` on ${where}.`,
    `${grouped(result.compared)} answers of Earshot were compared with all that matches in the scope before anything was ` +
      'measured: each hit matches, and where the matches fit into a page of 100, all of them are hits.',
    '',
    'Queries are drawn from what the audience may read: a word of few messages, a word that a few in a hundred ' +
      'messages hold, and all the words of one message, any of which may match. `guest5` reads nothing by the ' +
      'organization; the others have the part that is open to the organization in scope as well, and `open1` that alone.',
    '',
    '![Search of the audiences by each way, milliseconds on a logarithmic axis](benchmarks/search-ways.svg)',
    '',
    ...tables(searchTables(result)),
    '### How the alternatives were run',
    '',
    `- ${BROAD.map(broadName).join('; ')}: by \`ts_rank\` of any term over a text index of the whole organization, on a copy of ` +
      'the messages. The scope is given, so that only the search is measured, and it fetches no text. Its recall is ' +
      'held against the ten best in the scope by the same ranking.',
    `- ${ROW_SECURITY}: a policy on that copy with a kept relation of who reads what, the search under one reader’s ` +
      'setting. The text index does not serve: the match operator is not leakproof. An audience would need the whole ' +
      'result of each reader.',
    '',
    '### Recall and ranking on real conversations',
    '',
    ...recallProse(recall),
    '',
    ...tables(recallTables(recall)),
  ].join('\n');
  return { text, charts: { 'search-ways': waysChart(result) } };
}

function waysChart(result: SearchResult): string {
  return markChart({
    title: 'A search for an audience: Earshot and what somebody would do instead',
    x: 'p50, ms',
    rows: result.sets.map(setName),
    series: columns(result),
  });
}
