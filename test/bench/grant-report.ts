import { DURABLE, PRIMARY_KEY, SECURED } from './floor.ts';
import { liveCheckName } from './grant-cases.ts';
import { HEARTBEAT, introspectName, mintName, type GrantResult } from './grant-measurement.ts';
import { SIGN, VERIFY } from './http-cases.ts';
import { byName } from './measurement.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';

/** The tables of a run, by what each is about. */
export function grantTables({ groups, measured }: GrantResult): Record<string, Table> {
  const find = byName(measured);
  const [lookup, secured, durable] = [PRIMARY_KEY, SECURED, DURABLE].map((name) => find(name).p50);
  const over = (value: number, floor = NaN) => digits(value / floor);
  return {
    'What a grant stands beside': {
      head: ['', 'p50 ms', 'p95 ms', '× lookup'],
      rows: ['select 1', PRIMARY_KEY, SECURED, DURABLE, SIGN, VERIFY, HEARTBEAT].map((name) => {
        const { p50, p95 } = find(name);
        return [name, ms(p50), ms(p95), over(p50, lookup)];
      }),
    },
    'The live check: the token verified apart, nothing recorded': {
      head: ['audience', 'readers', 'p50 ms', 'p95 ms', '× secured function', 'µs a reader'],
      rows: groups.map((group) => {
        const { p50, p95 } = find(liveCheckName(group));
        const each = ((p50 - (secured ?? NaN)) * 1_000) / group.size;
        return [
          ...[group.name, grouped(group.size), ms(p50), ms(p95)],
          ...[over(p50, secured), digits(Math.max(0, each))],
        ];
      }),
    },
    'Whole calls: checked and recorded, committed': {
      head: [
        'audience',
        'introspect, p50 ms',
        '× durable insert',
        'mint, p50 ms',
        '× durable insert',
      ],
      rows: groups.map((group) => {
        const [introspect, mint] = [introspectName, mintName].map((name) => find(name(group)).p50);
        return [
          ...[group.name, ms(introspect), over(introspect ?? NaN, durable)],
          ...[ms(mint), over(mint ?? NaN, durable)],
        ];
      }),
    },
  };
}

/** The section of docs/benchmarks.md. */
export function grantSection(result: GrantResult, where: string, command: string): string {
  return [
    '## Grants',
    '',
    `Made by \`${command}\` on ${where}.`,
    `${grouped(result.compared)} grants were introspected before anything was measured, and were what had been minted.`,
    'Everything was measured in turns in one run; p50 and p95 are over at least five samples, each group over up to four ' +
      'audiences. A mint also computes the scope, to say how many conversations are in it.',
    '',
    ...Object.entries(grantTables(result)).flatMap(([title, table]) => [
      `### ${title}`,
      '',
      markdown(table),
      '',
    ]),
  ].join('\n');
}
