import type { CompileSettings } from '../sessions/compile/compile-settings.ts';
import type { Database } from '../sql/database.ts';
import type { Config } from './config.ts';
import type { Issuers } from './issuers.ts';
import type { Keys } from './keys.ts';

/** What every route works with. It holds no state that decides anything (INVARIANT 6). */
export interface Gateway {
  readonly database: Database;
  readonly keys: Keys;
  readonly config: Config;
  /** Whose tokens are taken beside its own. */
  readonly issuers: Issuers;
  /** How logs are compiled. It remembers counts of tokens, which are the same whenever they are made. */
  readonly compiling: CompileSettings;
}
