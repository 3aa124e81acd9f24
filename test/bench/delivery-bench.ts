import { measureDelivery } from './delivery-measurement.ts';
import { deliverySection, deliveryTables } from './delivery-report.ts';
import type { BenchOptions } from './options.ts';
import { machine, plain, writeSection } from './report.ts';
import { openBenchServer } from './server.ts';

/** Measures deliveries and their queue beside the floor, prints the tables, and writes them down if told to. */
export async function runDeliveryBench(options: BenchOptions): Promise<void> {
  const say = (line: string) => console.error(line);
  const server = await openBenchServer(options, say);
  try {
    const database = await server.open(options.sizes);
    try {
      const where = machine(server.version, options.sizes);
      console.log(where);
      const result = await measureDelivery(database, options.effort, say);
      for (const [title, table] of Object.entries(deliveryTables(result)))
        console.log(`\n${title}\n\n${plain(table)}`);
      if (options.write) {
        const command = `npm run bench ${process.argv.slice(2).join(' ')}`;
        await writeSection('delivery', deliverySection(result, where, command), {});
      }
    } finally {
      await database.close();
    }
  } finally {
    await server.close();
  }
}
