import type { BenchDatabase } from './server.ts';
import type { Case } from './measurement.ts';

/** What every figure stands beside: the least that a statement can cost in this run. */
export const PRIMARY_KEY = 'primary-key lookup';
export const DURABLE = 'one durable insert';
export const SECURED = 'empty secured function';

/** The floor, by the gateway's login over the driver as the product opens it. */
export function floorCases({ gateway: { sql }, sizes }: BenchDatabase): Case[] {
  return [
    { name: 'select 1', run: () => sql`select 1` },
    {
      name: PRIMARY_KEY,
      run: (turn) =>
        sql`select degree from bench.people where id = ${1 + ((turn * 7919) % sizes.users)}`,
    },
    {
      name: 'begin, set_config, select, commit',
      run: () =>
        sql.begin(async (transaction) => {
          await transaction`select set_config('earshot.organization', '1', true)`;
          return transaction`select 1`;
        }),
    },
    { name: SECURED, run: () => sql`select bench_run.nothing('1')` },
    { name: DURABLE, run: () => sql`insert into bench_run.inserts default values` },
  ];
}
