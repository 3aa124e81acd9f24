import { z } from 'zod';
import type { StorableUnit } from '../sql/log-compile.ts';
import { contentHash } from './compile/content-hash.ts';
import { LogName, nameOfSource, StorableText, TextSource } from './entry-shape.ts';

const Part = z.strictObject({
  text: StorableText,
  /** The messages and artifacts that it came from. Each has to be in the turn's scope. */
  sources: z.array(TextSource).max(200).optional(),
});

/** What one source gives at one start: parts, in their order. */
export const InjectionUnit = z.strictObject({
  source: LogName,
  parts: z.array(Part).min(1).max(100),
  /** Where it goes: after all else, before the latest message of a user, or to the system messages. */
  position: z.enum(['after_user', 'before_user', 'system']).default('after_user'),
  /** What goes after the latest user message is stored there once, unless its source wants it placed at each compile. */
  placement: z.enum(['stored', 'each_compile']).default('stored'),
});
export type InjectionUnit = z.input<typeof InjectionUnit>;

/** The units of a start, in the order in which their sources are registered. */
export const InjectionUnits = z
  .array(InjectionUnit)
  .max(100)
  .superRefine((units, context) => {
    const seen = new Set<string>();
    for (const [index, { source }] of units.entries()) {
      if (seen.has(source)) {
        const message = 'is named twice: what a source gives at one start is one unit';
        context.addIssue({ code: 'custom', path: [index, 'source'], message });
      }
      seen.add(source);
    }
  });

/** What a part came from, at the revision that was read, where that is known. */
type PartSource = TextSource & { readonly revision?: string };

/** A unit as a start has it, with the envelopes that the gateway's own retrieval gives each of its parts. */
export interface StartUnit extends Omit<z.output<typeof InjectionUnit>, 'parts'> {
  readonly parts: readonly {
    readonly text: string;
    readonly sources?: readonly PartSource[] | undefined;
  }[];
  readonly envelopes?: readonly unknown[] | undefined;
}

/** The text blocks of a unit, with their fields as the database gives them back: the same bytes stored and placed. */
export function blocksOf({ parts }: Pick<StartUnit, 'parts'>) {
  return parts
    .filter(({ text }) => text !== '')
    .map(({ text }) => ({ text, type: 'text' as const }));
}

/** Whether a unit is for the log: it goes after the latest user message, was not opted out, and is not blank. */
export function isStorable({ position, placement, parts }: StartUnit): boolean {
  return (
    position === 'after_user' &&
    placement === 'stored' &&
    parts.some(({ text }) => text.trim() !== '')
  );
}

/** A unit as the database takes it: its sources each at its block. */
export function storableUnit(unit: StartUnit): StorableUnit {
  const blocks = blocksOf(unit);
  const kept = unit.parts.flatMap((part, index) => (part.text === '' ? [] : [{ part, index }]));
  return {
    source: unit.source,
    hash: contentHash(JSON.stringify(blocks)),
    blocks,
    sources: kept.flatMap(({ part: { sources = [] } }, block) =>
      distinct(sources).map((source) => ({ ...source, block })),
    ),
    ...(unit.envelopes !== undefined && {
      envelopes: kept.map(({ index }) => unit.envelopes?.[index] ?? null),
    }),
  };
}

/** Everything that units came from, each once. */
export function sourcesOfUnits(units: readonly StartUnit[]) {
  return distinct(units.flatMap(({ parts }) => parts.flatMap(({ sources = [] }) => sources)));
}

function distinct<Source extends TextSource>(sources: readonly Source[]): Source[] {
  return [...new Map(sources.map((one) => [nameOfSource(one), one])).values()];
}

/** Where context comes from at each start of an agent. */
export interface InjectionSource {
  readonly name: string;
  readonly position?: InjectionUnit['position'];
  readonly placement?: InjectionUnit['placement'];
  /** Gives the parts, none if there is nothing. The signal is aborted when its time is over. */
  readonly gather: (signal: AbortSignal) => Promise<readonly z.input<typeof Part>[]>;
}

/** Why a source gave nothing: `error` is what it threw, for a log that may hold it. */
export interface SkippedSource {
  readonly source: string;
  readonly reason: 'failed' | 'timed_out' | 'wrong_shape';
  readonly error?: unknown;
}

/**
 * Asks all sources at once, and gives their units in the order in which the sources are listed, never in that in which they
 * finish. One that throws, takes longer than `timeoutMs`, or answers with the wrong shape, is skipped and reported, and nothing of
 * it counts; one that gives no parts gives no unit. Not checked: that a source stops when its signal is aborted.
 */
export async function gatherInjections(
  sources: readonly InjectionSource[],
  { timeoutMs, skipped }: { timeoutMs: number; skipped: (source: SkippedSource) => void },
): Promise<InjectionUnit[]> {
  const units = await Promise.all(
    sources.map(async (source) => {
      const { name, position, placement } = source;
      const controller = new AbortController();
      const { signal } = controller;
      let timer: NodeJS.Timeout | undefined;
      // A timer that keeps the process alive: with nothing else to do it would end here, and report nothing.
      const over = new Promise<typeof TIMED_OUT>((resolve) => {
        timer = setTimeout(() => {
          resolve(TIMED_OUT);
          controller.abort();
        }, timeoutMs);
      });
      let parts: unknown;
      try {
        parts = await Promise.race([source.gather(signal), over]);
      } catch (error) {
        skipped({ source: name, reason: signal.aborted ? 'timed_out' : 'failed', error });
        return [];
      } finally {
        clearTimeout(timer);
      }
      if (parts === TIMED_OUT) {
        skipped({ source: name, reason: 'timed_out' });
        return [];
      }
      if (Array.isArray(parts) && parts.length === 0) return [];
      const unit = parsedUnit({ source: name, parts, ...{ position, placement } });
      if (unit === undefined) skipped({ source: name, reason: 'wrong_shape' });
      return unit === undefined ? [] : [unit];
    }),
  );
  return units.flat();
}

const TIMED_OUT = Symbol('timed out');

/** A unit, if it is one: what throws while it is looked at is none. */
function parsedUnit(unit: unknown): z.output<typeof InjectionUnit> | undefined {
  try {
    return InjectionUnit.safeParse(unit).data;
  } catch {
    return undefined;
  }
}
