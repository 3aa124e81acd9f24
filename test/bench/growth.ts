import { findAudiences } from './audiences.ts';
import type { Series } from './chart.ts';
import type { Sizes } from './dataset.ts';
import { caseName, earshotShape, shapeCases } from './earshot-scope.ts';
import { byName, measure, type Effort } from './measurement.ts';
import { sqlShapes } from './peers-sql.ts';
import type { BenchServer } from './server.ts';
import type { ScopeResult } from './scope-measurement.ts';

/** How the scope grows with one size of the data, the others kept. */
export interface Growth {
  readonly title: string;
  readonly x: string;
  readonly series: readonly Series[];
}

const GROUPS = ['uni5', 'squad5', 'squad20', 'pow5'];

/** Doubles the members of the organization, with all that they are in, and then what each one is in. */
export async function measureGrowth(
  server: BenchServer,
  base: Sizes,
  effort: Effort,
): Promise<Growth[]> {
  const members = [1, 2, 4].map((times) => ({
    ...base,
    users: base.users * times,
    conversations: base.conversations * times,
    memberships: base.memberships * times,
    projects: base.projects * times,
  }));
  const memberships = [1, 2, 4].map((times) => ({
    ...base,
    memberships: base.memberships * times,
  }));
  return [
    {
      title: 'Scope, as the organization doubles (each person in as much as before)',
      x: 'users',
      series: await seriesOver(server, members, ({ users }) => users, effort),
    },
    {
      title: 'Scope, as memberships double (users and conversations as before)',
      x: 'memberships',
      series: await seriesOver(server, memberships, (sizes) => sizes.memberships, effort),
    },
  ];
}

async function seriesOver(
  server: BenchServer,
  all: readonly Sizes[],
  x: (sizes: Sizes) => number,
  effort: Effort,
): Promise<Series[]> {
  const points = new Map<string, [number, number][]>();
  for (const sizes of all) {
    const database = await server.open(sizes);
    try {
      const [plainest] = sqlShapes(database);
      const shapes = [earshotShape(database), ...(plainest === undefined ? [] : [plainest])];
      const groups = (await findAudiences(database)).filter(({ name }) => GROUPS.includes(name));
      const find = byName(await measure(shapeCases(shapes, groups), effort));
      for (const shape of shapes) {
        for (const group of groups) {
          const name = caseName(shape, group);
          points.set(name, [...(points.get(name) ?? []), [x(sizes), find(name).p50]]);
        }
      }
    } finally {
      await database.close();
    }
  }
  return [...points].map(([name, line]) => ({
    ...{ name, points: line, dashed: !name.startsWith('Earshot') },
    kin: GROUPS.findIndex((group) => name.endsWith(`: ${group}`)),
  }));
}

/** How the scope grows with the readers, from what a run measured. */
export function growthOfReaders({ groups, measured }: ScopeResult): Growth {
  const find = byName(measured);
  const names = ['Earshot', 'GROUP BY … HAVING'];
  return {
    title: 'Scope, as the readers double',
    x: 'readers',
    series: names.flatMap((shape) =>
      ['uni', 'squad', 'team', 'pow'].map((kind, kin) => ({
        ...{ name: `${shape}: ${kind}`, kin, dashed: shape !== 'Earshot' },
        points: groups
          .filter((group) => group.kind === kind)
          .map((group): [number, number] => [
            group.size,
            find(caseName({ name: shape }, group)).p50,
          ]),
      })),
    ),
  };
}
