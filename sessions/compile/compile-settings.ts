import {
  calibrated,
  estimatorNamed,
  remembered,
  type EstimatorName,
  type TokenEstimator,
} from './token-estimator.ts';

/** What a gateway fixes for all compiles. */
export interface CompileSettings {
  /** An estimator by its name, calibrated for a model: one without a factor is counted as it is. */
  estimator(name?: EstimatorName, model?: string): Promise<TokenEstimator>;
  /** How many bytes one source of injected context may store in a log in one turn. */
  readonly injectionBytesPerTurn: number;
}

/** Counts, not texts: about 150 bytes each. A log of 32,000 entries has about twice as many texts. */
const MOST_REMEMBERED = 250_000;

/** Settings with their own memory of counts, which are the same whenever they are made: to be made once. */
export function compileSettings({
  tokenFactors = {},
  injectionBytesPerTurn = 262_144,
}: {
  readonly tokenFactors?: Readonly<Record<string, number>> | undefined;
  readonly injectionBytesPerTurn?: number;
} = {}): CompileSettings {
  const counting = new Map<EstimatorName, Promise<TokenEstimator>>();
  return {
    injectionBytesPerTurn,
    async estimator(name = 'o200k_base', model) {
      const loading =
        counting.get(name) ??
        estimatorNamed(name).then((estimator) => remembered(estimator, MOST_REMEMBERED));
      counting.set(name, loading);
      const plain = await loading;
      const factor =
        model !== undefined && Object.hasOwn(tokenFactors, model) ? tokenFactors[model] : undefined;
      return factor === undefined ? plain : calibrated(plain, factor);
    },
  };
}
