import { audienceAt, type AudienceGroup } from './audiences.ts';
import type { Case } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

export const MENTIONED = ['squad20', 'team100', 'team1000', 'pow20'] as const;

export const mentionName = (extent: string, group: string) => `scope of the ${extent}: ${group}`;

/** The scope of a turn in a thread and that of a mention, for the same readers. */
export function mentionCases(
  { gateway: { sql } }: BenchDatabase,
  groups: readonly AudienceGroup[],
): Case[] {
  return groups
    .filter(({ name }) => MENTIONED.some((known) => known === name))
    .flatMap((group) =>
      ['audience', 'destination'].map((extent) => ({
        name: mentionName(extent, group.name),
        run: (turn: number) =>
          sql`select bench_run.turn_scope_size(${audienceAt(group, turn).destination}, ${extent})`,
      })),
    );
}
