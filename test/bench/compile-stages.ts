import { z } from 'zod';
import { compileMaterial, type Compilation } from '../../sessions/compile/compile.ts';
import { CompileMaterial } from '../../sessions/compile/compile-material.ts';
import { compileSettings, type CompileSettings } from '../../sessions/compile/compile-settings.ts';
import type { CompiledLog, CompileOptions } from '../../sessions/compile/compile-shape.ts';
import { countAhead } from '../../sessions/compile/counted-ahead.ts';
import { isStorable, storableUnit, type StartUnit } from '../../sessions/injections.ts';
import { injectUnits, type CompilePlace } from '../../sessions/session-compile.ts';
import { raiseWatermark, readLog } from '../../sql/context-log.ts';
import { sendLog } from '../../sql/log-compile.ts';
import { timed, type Times } from './compile-rounds.ts';
import { granted } from './session-logs.ts';

/** The steps of a compile, in their order. It builds once; here it does so with and without kept counts. */
export const STAGES = {
  store: 'store one injection, raise the watermark',
  read: 'read what there is',
  parse: 'check its shape',
  warm: 'count, choose, arrange',
  send: 'record what is sent',
} as const;
export type Stage = keyof typeof STAGES;

/** Takes the steps of a compile one by one, as `compileSession` does, and says what each took. */
export async function stageCompile(
  place: CompilePlace,
  unit: StartUnit,
): Promise<{ readonly times: Times; readonly compiled: CompiledLog }> {
  const { database, caller, namespace, settings } = place;
  const store = await timed(async () => {
    if (isStorable(unit)) granted(await injectUnits(place, [unit]));
    return granted(await raiseWatermark(database, caller, namespace));
  });
  const { source, hash, blocks } = storableUnit(unit);
  const asked = {
    units: isStorable(unit) ? [{ source, hash, blocks }] : [],
    sources: [],
    most: settings.injectionBytesPerTurn,
  };
  const read = await timed(async () =>
    granted(
      await readLog(database, caller, namespace, 'compile', asked, store.value.mark, z.unknown()),
    ),
  );
  const parse = await timed(() => CompileMaterial.parse(read.value.result));
  const build = async (memory: CompileSettings) => {
    const estimator = await memory.estimator();
    await countAhead(estimator, parse.value);
    return built(compileMaterial(parse.value, [unit], {}, estimator));
  };
  const cold = await timed(() => build(compileSettings()));
  const warm = await timed(() => build(settings));
  const { compiled, held, chain } = warm.value;
  const send = await timed(async () =>
    granted(
      await sendLog(database, caller, namespace, {
        ...{ mark: store.value.mark, held, chain: chain.hashes },
        items: compiled.messages.length,
      }),
    ),
  );
  const times = {
    ...{ store: store.took, read: read.took, parse: parse.took, cold: cold.took, warm: warm.took },
    send: send.took,
  };
  return { times, compiled };
}

/** What is read for a compile of a log, without a start's injections. */
export async function materialOf({
  database,
  caller,
  namespace,
  settings,
}: CompilePlace): Promise<CompileMaterial> {
  const { mark } = granted(await raiseWatermark(database, caller, namespace));
  const asked = { units: [], sources: [], most: settings.injectionBytesPerTurn };
  const read = await readLog(
    ...([database, caller, namespace, 'preview', asked, mark, CompileMaterial] as const),
  );
  return granted(read).result;
}

export function built(compilation: Compilation): Extract<Compilation, { ok: true }> {
  if (!compilation.ok) throw new Error(`A compile is refused: ${compilation.code}.`);
  return compilation;
}

/** Options that decide about dear summaries too, which no caller of a log can. */
export type RuledOptions = CompileOptions & { readonly dearer?: 'keep' };
