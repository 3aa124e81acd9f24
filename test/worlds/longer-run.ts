import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

// `npm run test:worlds -- --worlds 20000 [--seed N] [file ...]`: the tests over generated worlds, for longer, or the same
// run again. Each property takes its share of the worlds.

const { values, positionals } = parseArgs({
  options: { worlds: { type: 'string' }, seed: { type: 'string' } },
  allowPositionals: true,
});
const worlds = Number(values.worlds ?? 20_000);
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
if (!Number.isSafeInteger(worlds) || worlds < 1 || !Number.isSafeInteger(seed)) {
  console.error('--worlds is a whole number from 1, --seed a whole number.');
  process.exit(2);
}
console.log(`${String(worlds)} worlds, seed ${String(seed)}`);
const files = positionals.length > 0 ? positionals : ['test/worlds'];
const { status } = spawnSync('npx', ['vitest', 'run', ...files], {
  stdio: 'inherit',
  env: { ...process.env, WORLDS: String(worlds), SEED: String(seed) },
});
process.exit(status ?? 1);
