import { sharedBytes, type Conversation } from './compile-conversation.ts';
import {
  countName,
  PLANNED,
  RULED,
  timeName,
  WHOLE,
  type CompileResult,
} from './compile-measurement.ts';
import { median, medianOf, medianRatio, roundsOf } from './compile-rounds.ts';
import { STAGES, type Stage } from './compile-stages.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';
import { floorTable } from './session-report.ts';

/** The tables of a run, by what each is about. */
export function compileTables(result: CompileResult): Record<string, Table> {
  return {
    'What a compile stands beside': floorTable(result),
    'What the next request keeps': keptTable(result),
    'The logs that are compiled': sizeTable(result),
    'By the length of the log, step by step': growthTable(result),
    'The rule about dear summaries, where none is dear': ruleTable(result),
    'Counting tokens': countTable(result),
  };
}

const NAMES: Readonly<Record<Conversation['placement'], string>> = {
  stored: 'stored, the default',
  each_compile: 'placed at each compile',
};

/** How much of each request is the beginning of the next one, byte by byte. */
export function keptOf({ requests }: Conversation) {
  const pairs = requests.slice(1).map((next, turn) => {
    const request = requests[turn] ?? next;
    return { kept: sharedBytes(request, next), bytes: request.length, next: next.length };
  });
  const sum = (of: (pair: (typeof pairs)[number]) => number) =>
    pairs.reduce((total, pair) => total + of(pair), 0);
  const shares = pairs.map(({ kept, bytes }) => kept / bytes);
  return {
    sent: requests.reduce((total, { length }) => total + length, 0),
    p50: median(shares),
    least: Math.min(...shares),
    total: sum(({ kept }) => kept) / sum(({ bytes }) => bytes),
    found: sum(({ kept }) => kept) / sum(({ next }) => next),
    anew: median(pairs.map(({ kept, next }) => next - kept)),
  };
}

function keptTable({ conversations }: CompileResult): Table {
  return {
    head: [
      ...['injections', 'requests', 'MB sent', 'units', 'of these unchanged', 'kept, p50', 'least'],
      ...['over all turns', 'of the next, over all', 'KB anew each turn, p50'],
    ],
    rows: conversations.map((conversation) => {
      const { placement, requests, units, unchanged } = conversation;
      const { sent, p50, least, total, found, anew } = keptOf(conversation);
      return [
        ...[NAMES[placement], grouped(requests.length), digits(sent / 1_000_000)],
        ...[grouped(units), placement === 'stored' ? grouped(unchanged) : ''],
        ...[p50, least, total, found].map((share) => share.toFixed(4)),
        digits(anew / 1_000),
      ];
    }),
  };
}

function sizeTable({ logs }: CompileResult): Table {
  return {
    head: [
      ...['entries', 'summaries of entries', 'of summaries', 'MB of JSON'],
      ...['entries sent', 'summaries sent', 'messages', 'tokens'],
    ],
    rows: logs.map(({ length, summaries, bytes, stats, messages }) => [
      ...[grouped(length), grouped(summaries.first), grouped(summaries.second)],
      ...[digits(bytes / 1_000_000), grouped(stats.entries), grouped(stats.summaries)],
      ...[grouped(messages), grouped(stats.tokens.total)],
    ]),
  };
}

const ROWS: readonly (readonly [Stage | 'cold' | typeof WHOLE, string])[] = [
  ['store', STAGES.store],
  ['read', STAGES.read],
  ['parse', STAGES.parse],
  ['warm', `${STAGES.warm}, counts remembered`],
  ['cold', `${STAGES.warm}, nothing remembered`],
  ['send', STAGES.send],
  [WHOLE, '**whole compile, counts remembered**'],
];

/** What each step takes, and how much more an entry of a longer log costs than one of the shortest. */
function growthTable({ logs, rounds }: CompileResult): Table {
  const [shortest = 0, ...longer] = logs.map(({ length }) => length);
  return {
    head: [
      ...['', `${grouped(shortest)} entries: p50 ms`, 'µs an entry'],
      ...longer.flatMap((length) => [`${grouped(length)}: p50 ms`, 'µs an entry', 'an entry, ×']),
    ],
    rows: ROWS.map(([step, title]) => {
      const cells = (length: number) => {
        const took = medianOf(rounds, timeName(step, length));
        return [ms(took), digits((took * 1_000) / length)];
      };
      return [
        ...[title, ...cells(shortest)],
        ...longer.flatMap((length) => {
          const times = medianRatio(rounds, timeName(step, length), timeName(step, shortest));
          return [...cells(length), digits((times * shortest) / length)];
        }),
      ];
    }),
  };
}

function ruleTable({ ruled, rounds }: CompileResult): Table {
  const pair = (names: { with: string; without: string }, length: number) => {
    const [one, other] = [timeName(names.with, length), timeName(names.without, length)];
    return [
      ...[ms(medianOf(rounds, one)), ms(medianOf(rounds, other))],
      medianRatio(rounds, one, other).toFixed(3),
    ];
  };
  return {
    head: [
      ...['entries', 'whole compile: with the rule, p50 ms', 'without', 'with ÷ without'],
      ...['choice alone: with, p50 ms', 'without', 'with ÷ without'],
    ],
    rows: ruled.map((length) => [
      grouped(length),
      ...[...pair(RULED, length), ...pair(PLANNED, length)],
    ]),
  };
}

function countTable({ counted, rounds }: CompileResult): Table {
  return {
    head: ['', 'MB', 'anew, p50 ms', 'MB/s', 'from memory, p50 ms', 'MB/s'],
    rows: Object.entries(counted).map(([name, bytes]) => [
      ...[name, digits(bytes / 1_000_000)],
      ...(['cold', 'warm'] as const).flatMap((way) => {
        const took = medianOf(rounds, countName(way, name));
        return [ms(took), digits(bytes / 1_000 / took)];
      }),
    ]),
  };
}

/** The section of docs/benchmarks.md. */
export function compileSection(result: CompileResult, where: string, command: string): string {
  const tables = Object.entries(compileTables(result));
  return [
    '## Compile',
    '',
    `Made by \`${command}\` on ${where}.`,
    `${grouped(result.compared)} compiles were compared with what the same log gave in other ways before anything was measured, ` +
      'and were the same.',
    `What is compared was measured in rounds, each thing once in each round, at least ${grouped(roundsOf(result.rounds))} of them; a figure ` +
      'is the median of its rounds, and a ratio the median of the ratios of each round.',
    '',
    '**What the next request keeps.** A conversation of one user and an assistant with tools, through the product’s own doors. ' +
      'At each turn the last thing that the user wrote is followed by what two sources found: a search that the thread’s ' +
      'audience may read, the same at every third turn as before, and notes that change at every tenth. *Kept* is how ' +
      'much of a request is, byte by byte, the beginning of the next one, messages as JSON: what a provider’s prompt cache can give ' +
      'back. *Of the next* is the same part of the next request, *anew* what is left of it. Stored injections stay ' +
      'where they were sent, so requests grow by them; placed ones are at the end of each request, and only there.',
    '',
    '**The logs.** Entries as in the section about sessions, all for everybody, their texts put together from sentences of ' +
      'these pages. Of the first four fifths each 50 entries are under a summary of 600 characters, and each ten of these under one of ' +
      'the second level.',
    '',
    '**By the length of the log.** Each round takes the steps of a compile one by one, then a whole one. One injection is ' +
      'stored each time. *Read* is the statement with the driver and its reading of JSON. *An entry, ×*: what an entry costs ' +
      'there, beside one of the shortest log; 1 is linear growth.',
    '',
    '**The rule about dear summaries** compares each summary that would be sent with what is under it. *Without* is the same ' +
      'compile, told to keep dear ones.',
    '',
    '**Counting tokens.** The default estimator over texts as they come, and with their counts kept, as a gateway has them that ' +
      'compiled the log before. Words that the tokenizer does not know take it longest.',
    '',
    ...tables.flatMap(([title, table]) => [`### ${title}`, '', markdown(table), '']),
  ].join('\n');
}
