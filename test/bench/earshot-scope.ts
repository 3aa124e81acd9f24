import { z } from 'zod';
import type { Audience, AudienceGroup } from './audiences.ts';
import { audienceAt } from './audiences.ts';
import type { Case } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

/** Conversations with the floor of each. What the organization reads at the default floor is left out. */
export type Answer = ReadonlyMap<string, string>;

/** Who answers the question of the scope, and how. */
export interface Shape {
  readonly name: string;
  /** One sentence: how it is run. */
  readonly about: string;
  /** Whether it can be run for these readers; the reason for `false` is in `about`. */
  suits(group: AudienceGroup): boolean;
  /** The whole answer, for comparison. */
  answer(audience: Audience): Promise<Answer>;
  /** What is measured: the answer as this shape has it at hand, in the database or in the process. */
  ask(audience: Audience): Promise<unknown>;
}

const Rows = z.array(z.object({ id: z.string(), floor: z.string() }));

export function answerOf(rows: unknown): Answer {
  return new Map(Rows.parse(rows).map(({ id, floor }) => [id, floor]));
}

/** Earshot's own statement, by the gateway's login, under its row security. */
export function earshotShape({ gateway: { sql } }: BenchDatabase): Shape {
  return {
    name: 'Earshot',
    about:
      'the scope function of the migrations, called through a secured function by the gateway’s login, tenant row security on',
    suits: () => true,
    answer: async ({ destination }) =>
      answerOf(await sql`select * from bench_run.scope_rows(${destination})`),
    ask: ({ destination }) => sql`select bench_run.scope_size(${destination})`,
  };
}

export function shapeCases(shapes: readonly Shape[], groups: readonly AudienceGroup[]): Case[] {
  return groups.flatMap((group) =>
    shapes
      .filter((shape) => shape.suits(group))
      .map((shape) => ({
        name: caseName(shape, group),
        run: (turn: number) => shape.ask(audienceAt(group, turn)),
      })),
  );
}

export function caseName(
  { name }: Pick<Shape, 'name'>,
  group: Pick<AudienceGroup, 'name'>,
): string {
  return `${name}: ${group.name}`;
}
