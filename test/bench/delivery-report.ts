import { proposeName, releaseName } from './delivery-cases.ts';
import type { DeliveryResult } from './delivery-measurement.ts';
import { DURABLE, PRIMARY_KEY, SECURED } from './floor.ts';
import { byName } from './measurement.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';
import { DELIVERIES, judgeDeliveries } from './targets.ts';

/** The tables of a run, by what each is about. */
export function deliveryTables(result: DeliveryResult): Record<string, Table> {
  const { answering, measured, queue } = result;
  const find = byName(measured);
  const [lookup, durable] = [find(PRIMARY_KEY).p50, find(DURABLE).p50];
  const step = (nameOf: typeof proposeName): Table => ({
    head: [
      'audience',
      'readers',
      'ledger rows',
      'p50 ms',
      'p95 ms',
      '× durable insert',
      '× lookup',
    ],
    rows: answering.map((one) => {
      const { p50, p95 } = find(nameOf(one));
      return [
        ...[one.group.name, grouped(one.group.size), grouped(one.rows), ms(p50), ms(p95)],
        ...[digits(p50 / durable), digits(p50 / lookup)],
      ];
    }),
  });
  return {
    'What a delivery stands beside': {
      head: ['', 'p50 ms', 'p95 ms', '× lookup'],
      rows: ['select 1', PRIMARY_KEY, SECURED, DURABLE].map((name) => {
        const { p50, p95 } = find(name);
        return [name, ms(p50), ms(p95), digits(p50 / lookup)];
      }),
    },
    'Propose: locked, judged, its sources written down, committed': step(proposeName),
    'Release: locked, judged again, committed': step(releaseName),
    'Targets of a delivery': {
      head: ['', 'p50', 'p95', 'over', 'target', ''],
      rows: judgeDeliveries(find, answering).map(({ what, p50, p95, target, met }) => [
        ...[what, digits(p50), digits(p95 ?? NaN), `× ${DURABLE}`, target.join(' / ')],
        met ? 'met' : '**missed**',
      ]),
    },
    'The queue: claimed in batches, each released and reported': {
      head: ['gateways', 'batch', 'deliveries', 'seconds', 'doubled', 'deliveries a second'],
      rows: queue.map(({ gateways, batch, deliveries, seconds, doubled, perSecond }) => [
        ...[gateways, batch, deliveries].map(grouped),
        ...[digits(seconds), grouped(doubled), digits(perSecond)],
      ]),
    },
  };
}

/** The section of docs/benchmarks.md. */
export function deliverySection(result: DeliveryResult, where: string, command: string): string {
  const { group, rows } = result.queued;
  return [
    '## Delivery',
    '',
    `Made by \`${command}\` on ${where}.`,
    'Everything but the queue was measured in turns in one run; p50 and p95 are over at least five samples, each group over up to ' +
      'four audiences. Of one conversation at most ten messages are in a ledger. The targets are for up to ' +
      `${DELIVERIES.readers} readers and ${DELIVERIES.rows} rows.`,
    `The queue held answers toward \`${group.name}\`, with ${grouped(rows)} rows each. A gateway there is a process of its own, with the ` +
      'schemas, the tokens and the clearances of its routes, and an endpoint in it that carries eight deliveries at once and sends nothing; ' +
      'all of them and the database share the cores. What was handed out twice counts as nothing done.',
    '',
    ...Object.entries(deliveryTables(result)).flatMap(([title, table]) => [
      `### ${title}`,
      '',
      markdown(table),
      '',
    ]),
  ].join('\n');
}
