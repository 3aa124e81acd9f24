import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { REFUSALS, type RefusalCode } from '../../policy/refusal.ts';

/** A message as scenarios name it: its conversation and its sequence. */
const Place = z.string().regex(/^\S+ [1-9][0-9]*$/);
const Facts = z.array(z.looseObject({ fact: z.string() }));
const Code = z.enum(Object.keys(REFUSALS) as [RefusalCode]);
const Turn = z.strictObject({
  destination: z.string(),
  requester: z.string(),
  trigger: z.looseObject({ kind: z.enum(['thread', 'mention', 'schedule']) }),
});
export type ScenarioTurn = z.infer<typeof Turn>;

/** A turn, and what it selects; or why there is none. */
const Journey = z.union([
  z.strictObject({ name: z.string(), turn: Turn, refused: Code }),
  z.strictObject({
    name: z.string(),
    turn: Turn,
    mode: z.string(),
    people: z.int(),
    classes: z.int(),
    scope: z.record(z.string(), z.string()),
    selected: z.array(Place),
  }),
]);

/** The acceptance world with its journeys. */
export const Journeys = z.strictObject({
  facts: Facts,
  journeys: z.array(Journey),
  never: z.array(Place),
});

/** One thing that happens between an answer and its delivery. */
const Step = z.union([
  z.strictObject({ put: z.string(), body: z.record(z.string(), z.unknown()).default({}) }),
  z.strictObject({ delete: z.string() }),
  z.strictObject({ turn: z.enum(['complete', 'stop']) }),
  z.strictObject({ facts: Facts }),
]);
export type ScenarioStep = z.infer<typeof Step>;

/** What is seen from five sides. Each side looks at a turn of its own. */
const Sides = z.strictObject({
  /** What the running turn selects. */
  selects: z.union([z.array(Place), Code]),
  /** The verdict on an answer that is proposed now. */
  proposes: z.union([z.literal('cleared'), Code]),
  /** What becomes of an answer that was cleared before. */
  releases: z.union([z.literal('released'), Code]),
  /** Whether the running turn gets another grant, and for which session. */
  mints: z.union([z.enum(['same session', 'other session']), Code]),
  /** What the next turn is. */
  next: z.union([
    z.strictObject({
      session: z.enum(['same', 'other']),
      mode: z.string(),
      selects: z.array(Place),
    }),
    Code,
  ]),
});
export type Sides = z.infer<typeof Sides>;

/** One turn's answer, and each single change under it. */
export const Changes = z.strictObject({
  facts: Facts,
  turn: Turn,
  changes: z
    .array(z.strictObject({ name: z.string(), steps: z.array(Step), seen: Sides.partial() }))
    .min(2),
});

/** Where else an answer may go. */
export const Destinations = z.strictObject({
  facts: Facts,
  turns: z.array(
    z.strictObject({
      name: z.string(),
      turn: Turn,
      /** What the turn asks of the tools first; nothing: it retrieves nothing. */
      search: z.string().optional(),
      verdicts: z.record(
        z.string(),
        z.union([z.literal('cleared'), z.strictObject({ held: Code, recovery: z.string() }), Code]),
      ),
    }),
  ),
});

/** Reads a scenario of `fixtures/scenarios`. */
export function readScenario<Shape extends z.ZodType>(name: string, shape: Shape): z.infer<Shape> {
  const file = join(import.meta.dirname, '../../fixtures/scenarios', `${name}.yaml`);
  return shape.parse(parse(readFileSync(file, 'utf8')));
}
