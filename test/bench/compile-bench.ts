import { scaled, type Sizes } from './dataset.ts';
import type { BenchOptions } from './options.ts';
import { machine, plain, writeSection } from './report.ts';
import { openBenchServer } from './server.ts';
import { measureCompile } from './compile-measurement.ts';
import { compileSection, compileTables } from './compile-report.ts';

/**
 * Measures compiles of the context log beside the floor, prints the tables, and writes them down if told to. Its organization is
 * small whatever sizes are asked for, since nothing of a log grows with it, and is removed
 * afterwards, so that no run meets the logs of another.
 */
export async function runCompileBench(options: BenchOptions): Promise<void> {
  const say = (line: string) => console.error(line);
  const sizes: Sizes = { ...scaled(0.005, options.sizes.seed), users: 300 };
  const server = await openBenchServer(options, say);
  try {
    await server.drop(sizes);
    const database = await server.open(sizes);
    try {
      const where = machine(server.version, sizes);
      console.log(where);
      const result = await measureCompile(database, options.effort, say);
      for (const [title, table] of Object.entries(compileTables(result)))
        console.log(`\n${title}\n\n${plain(table)}`);
      if (options.write) {
        const command = `npm run bench ${process.argv.slice(2).join(' ')}`;
        await writeSection('compile', compileSection(result, where, command), {});
      }
    } finally {
      await database.close();
      await server.drop(sizes);
    }
  } finally {
    await server.close();
  }
}
