import { expect } from 'vitest';
import type { Sql } from '../../sql/database.ts';

/** A change of one function of the migrations that lets something through, or loses something. */
export interface Mutant {
  readonly title: string;
  readonly routine: string;
  readonly from: string;
  readonly to: string;
}

/** Works with a function changed, which has what is to be changed once, and puts it back. */
export async function withMutant(
  superuser: Sql,
  { routine, from, to }: Mutant,
  work: () => Promise<void>,
): Promise<void> {
  const [row] = await superuser<{ text: string }[]>`
    select pg_get_functiondef(oid) as text from pg_proc
    where pronamespace = 'earshot'::regnamespace and proname = ${routine}`;
  const original = row?.text ?? '';
  expect(original.split(from), 'what is to be mutated').toHaveLength(2);
  await superuser.unsafe(original.replace(from, () => to));
  try {
    await work();
  } finally {
    await superuser.unsafe(original);
  }
}
