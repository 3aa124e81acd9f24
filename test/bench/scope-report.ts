import { lineChart, markChart } from './chart.ts';
import { caseName, type Shape } from './earshot-scope.ts';
import { DURABLE, PRIMARY_KEY, SECURED } from './floor.ts';
import type { Growth } from './growth.ts';
import { PROPOSE, RELEASE } from './grant-cases.ts';
import { PLAIN_HTTP, SIGN, TOOL_HTTP, TOOL_OVERHEAD, VERIFY } from './http-cases.ts';
import { byName, type Measurement } from './measurement.ts';
import { MENTIONED, mentionName } from './mention-cases.ts';
import { digits, grouped, markdown, ms, type Table } from './report.ts';
import type { ScopeResult } from './scope-measurement.ts';
import type { AudienceGroup } from './audiences.ts';

/** The tables of a run, by what each is about. */
export function scopeTables(
  result: ScopeResult,
  engines: Omit<ScopeResult, 'judged'> | undefined,
): Record<string, Table> {
  const find = byName(result.measured);
  const floor = find(PRIMARY_KEY).p50;
  const shapesOf = (among: Omit<ScopeResult, 'judged'>) => shapeTable(among);
  return {
    'What everything stands beside': timesTable(
      [
        ...['select 1', PRIMARY_KEY, 'begin, set_config, select, commit', SECURED, DURABLE],
        ...[SIGN, VERIFY, PLAIN_HTTP],
      ].map(find),
      floor,
    ),
    Targets: {
      head: ['', 'p50', 'p95', 'in', 'target', ''],
      rows: result.judged.map(({ what, unit, p50, p95, target, met }) => [
        what,
        digits(p50),
        p95 === undefined ? '' : digits(p95),
        unit,
        target.join(' / '),
        met ? 'met' : '**missed**',
      ]),
    },
    'Scope by Earshot': {
      head: [
        'audience',
        'readers',
        'rows they read by',
        'in scope',
        'p50 ms',
        'p95 ms',
        '× lookup',
      ],
      rows: result.groups.map((group) => {
        const { p50, p95 } = find(caseName({ name: 'Earshot' }, group));
        const { readers, rows, scope } = facts(group, result);
        return [group.name, readers, rows, scope, ms(p50), ms(p95), digits(p50 / floor)];
      }),
    },
    'Scope by what somebody would use instead, p50 ms': shapesOf(result),
    ...(engines && {
      [`The engines that hold everything in the process, p50 ms (${grouped(engines.sizes.conversations)} conversations, ${grouped(engines.sizes.memberships)} memberships)`]:
        shapesOf(engines),
    }),
    'Calls under a grant': timesTable(
      [
        ...result.measured.filter(({ name }) => /^(live check|retrieve|read): /.test(name)),
        ...[PROPOSE, RELEASE, TOOL_HTTP, TOOL_OVERHEAD].map(find),
      ],
      floor,
    ),
    'What a mention saves': mentionTable(result),
  };
}

function facts(group: AudienceGroup, { found }: Pick<ScopeResult, 'found'>) {
  const span = (numbers: readonly number[]) => {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    return low === high ? grouped(low) : `${grouped(low)} to ${grouped(high)}`;
  };
  return {
    readers: span(group.audiences.map(({ users }) => users.length)),
    rows: span(group.audiences.map(({ readable }) => readable)),
    scope: span(found.get(group.name) ?? []),
  };
}

function timesTable(measured: readonly Measurement[], floor: number): Table {
  return {
    head: ['', 'p50 ms', 'p95 ms', '× lookup'],
    rows: measured.map(({ name, p50, p95 }) => [name, ms(p50), ms(p95), digits(p50 / floor)]),
  };
}

function shapeTable({ groups, measured, shapes }: Omit<ScopeResult, 'judged'>): Table {
  const times = new Map(measured.map((measurement) => [measurement.name, measurement.p50]));
  const shown = groups.filter((group) =>
    shapes.slice(1).some((shape) => times.has(caseName(shape, group))),
  );
  return {
    head: ['', ...shown.map(({ name }) => name)],
    rows: shapes.map((shape) => [
      shape.name,
      ...shown.map((group) => ms(times.get(caseName(shape, group)))),
    ]),
  };
}

function mentionTable({ groups, measured }: ScopeResult): Table {
  const find = byName(measured);
  const present = MENTIONED.filter((name) => groups.some((group) => group.name === name));
  return {
    head: [
      'audience',
      'scope, thread',
      'scope, mention',
      'whole read, thread',
      'whole read, mention',
    ],
    rows: present.map((name) => [
      name,
      ...[
        mentionName('audience', name),
        mentionName('destination', name),
        `read: ${name}`,
        `read: mention-${name}`,
      ].map((measurement) => ms(find(measurement).p50)),
    ]),
  };
}

/** The section of docs/benchmarks.md and its charts. */
export function scopeSection(
  result: ScopeResult,
  engines: Omit<ScopeResult, 'judged'> | undefined,
  growth: readonly Growth[],
  where: string,
  command: string,
): { text: string; charts: Record<string, string> } {
  const charts: Record<string, string> = { 'scope-shapes': shapesChart(result) };
  for (const { title, x, series } of growth) {
    charts[`scope-by-${x}`] = lineChart({ title, x, y: 'p50, ms', series });
  }
  const shapes = [...result.shapes, ...(engines?.shapes.slice(1) ?? [])];
  const text = [
    '## Scope',
    '',
    `Made by \`${command}\` on ${where}.`,
    `${grouped(result.compared + (engines?.compared ?? 0))} answers of the alternatives were compared with ` +
      'Earshot’s before anything was measured: every conversation and every floor was the same.',
    'Everything in a table was measured in turns in one run; p50 and p95 are over at least five samples, ' +
      'each group over up to four audiences.',
    '',
    '![Scope of the audiences by each shape, milliseconds on a logarithmic axis](benchmarks/scope-shapes.svg)',
    '',
    ...Object.entries(scopeTables(result, engines)).flatMap(([title, table]) => [
      `### ${title}`,
      '',
      markdown(table),
      '',
    ]),
    '### How each was run',
    '',
    ...shapes.map((shape: Shape) => `- ${shape.name}: ${shape.about}.`),
    '',
    ...(growth.length === 0 ? [] : ['### Growth', '']),
    ...growth.flatMap((one) => [
      `![${one.title}](benchmarks/scope-by-${one.x}.svg)`,
      '',
      markdown(growthTable(one)),
      '',
    ]),
  ].join('\n');
  return { text, charts };
}

function shapesChart({ groups, measured, shapes }: ScopeResult): string {
  const times = new Map(measured.map(({ name, p50 }) => [name, p50]));
  const rows = groups.filter((group) =>
    shapes.slice(2, 4).some((shape) => times.has(caseName(shape, group))),
  );
  return markChart({
    title: 'Scope of an audience: Earshot and what somebody would use instead',
    x: 'p50, ms',
    rows: rows.map(({ name }) => name),
    series: shapes.map((shape) => ({
      name: shape.name,
      values: new Map(
        rows.flatMap((group) => {
          const time = times.get(caseName(shape, group));
          return time === undefined ? [] : [[group.name, time] as const];
        }),
      ),
    })),
  });
}

export function growthTable({ x, series }: Growth): Table {
  const all = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].toSorted(
    (a, b) => a - b,
  );
  return {
    head: [`p50 ms by ${x}`, ...all.map(grouped)],
    rows: series.map(({ name, points }) => {
      const at = new Map(points);
      return [name, ...all.map((value) => ms(at.get(value)))];
    }),
  };
}
