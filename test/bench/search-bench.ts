import type { BenchOptions } from './options.ts';
import { measureOnCorpora } from './recall-bench.ts';
import { recallTables } from './recall-report.ts';
import { machine, plain, writeSection, type Table } from './report.ts';
import { measureSearch } from './search-measurement.ts';
import { searchSection, searchTables } from './search-report.ts';
import { openBenchServer } from './server.ts';

/** Measures search and its recall, prints the tables, and writes them down if told to. */
export async function runSearchBench(options: BenchOptions): Promise<void> {
  const say = (line: string) => console.error(line);
  const server = await openBenchServer(options, say);
  try {
    const database = await server.open(options.sizes);
    try {
      const where = machine(server.version, options.sizes);
      console.log(where);
      const result = await measureSearch(database, options.effort, say);
      print(searchTables(result));
      const recall = await measureOnCorpora(say);
      print(recallTables(recall));
      if (options.write) {
        const all = process.env.RECALL === 'all' ? 'RECALL=all ' : '';
        const command = `${all}npm run bench ${process.argv.slice(2).join(' ')}`;
        const { text, charts } = searchSection(result, recall, where, command);
        await writeSection('search', text, charts);
      }
    } finally {
      await database.close();
    }
  } finally {
    await server.close();
  }
}

function print(tables: Readonly<Record<string, Table>>): void {
  for (const [title, table] of Object.entries(tables)) console.log(`\n${title}\n\n${plain(table)}`);
}
