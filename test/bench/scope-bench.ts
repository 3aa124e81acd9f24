import { findAudiences } from './audiences.ts';
import { scaled } from './dataset.ts';
import { growthOfReaders, measureGrowth } from './growth.ts';
import type { BenchOptions } from './options.ts';
import { explainNested } from './plans.ts';
import { machine, plain, writeSection } from './report.ts';
import { measureInProcess, measureScope } from './scope-measurement.ts';
import { growthTable, scopeSection, scopeTables } from './scope-report.ts';
import { openBenchServer, type BenchDatabase } from './server.ts';

/** Measures the scope and what stands around it, prints the tables, and writes them down if told to. */
export async function runScopeBench(options: BenchOptions): Promise<void> {
  const say = (line: string) => console.error(line);
  const server = await openBenchServer(options, say);
  try {
    const database = await server.open(options.sizes);
    try {
      const where = machine(server.version, options.sizes);
      console.log(where);
      if (options.plans) await printPlans(database);
      const result = await measureScope(database, options.effort, say);
      const engines = await measureInProcess(server, database, options.effort, say);
      const base = scaled(Math.max(0.02, options.sizes.users / 200_000), options.sizes.seed);
      if (options.growth) say('Measuring growth.');
      const growth = options.growth
        ? [growthOfReaders(result), ...(await measureGrowth(server, base, options.effort))]
        : [];
      for (const [title, table] of Object.entries(scopeTables(result, engines)))
        console.log(`\n${title}\n\n${plain(table)}`);
      for (const one of growth) console.log(`\n${one.title}\n\n${plain(growthTable(one))}`);
      const missed = result.judged.filter(({ met }) => !met);
      console.log(
        `\n${result.judged.length - missed.length} of ${result.judged.length} targets met; ` +
          `${result.compared + engines.compared} answers compared, all the same.`,
      );
      if (options.write) {
        const command = `npm run bench ${process.argv.slice(2).join(' ')}`;
        const { text, charts } = scopeSection(result, engines, growth, where, command);
        await writeSection('scope', text, charts);
      }
    } finally {
      await database.close();
    }
  } finally {
    await server.close();
  }
}

/** The plans of one scope of each kind, of every statement inside, once they are prepared. */
async function printPlans(database: BenchDatabase): Promise<void> {
  for (const { name, audiences } of await findAudiences(database)) {
    if (!['uni100', 'squad5', 'squad20', 'team100', 'pow5', 'guest5'].includes(name)) continue;
    const [audience] = audiences;
    const statement = `select bench_run.scope_size(${audience?.destination})`;
    const plans = await explainNested(
      database.superuserUrl,
      Array.from({ length: 8 }, () => statement),
      'text',
    );
    console.log(`\nPlans of the scope of ${name}\n\n${plans.join('\n')}`);
  }
}
