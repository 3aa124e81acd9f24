import { runCompileBench } from './compile-bench.ts';
import { runDeliveryBench } from './delivery-bench.ts';
import { runGrantBench } from './grant-bench.ts';
import { readOptions } from './options.ts';
import { runScopeBench } from './scope-bench.ts';
import { runSearchBench } from './search-bench.ts';
import { runSessionBench } from './session-bench.ts';

/** Each bench by its first word on the command line. */
const BENCHES: Readonly<Record<string, (words: readonly string[]) => Promise<void>>> = {
  scope: (words) => runScopeBench(readOptions(words)),
  grant: (words) => runGrantBench(readOptions(words)),
  delivery: (words) => runDeliveryBench(readOptions(words)),
  search: (words) => runSearchBench(readOptions(words)),
  sessions: (words) => runSessionBench(readOptions(words)),
  compile: (words) => runCompileBench(readOptions(words)),
};

const [name = '', ...words] = process.argv.slice(2);
const bench = BENCHES[name];
if (bench === undefined) {
  console.error(`usage: npm run bench -- ${Object.keys(BENCHES).join('|')} [options]`);
  process.exitCode = 2;
} else {
  await bench(words);
}
