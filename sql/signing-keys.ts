import { z } from 'zod';
import type { Database, Sql } from './database.ts';

/** A key as the database keeps it: nobody can use or make one without the secret, which is elsewhere. */
const SealedKey = z.object({
  kid: z.string(),
  /** RFC 3339. */
  createdAt: z.string(),
  signsFrom: z.string(),
  sealedKey: z.instanceof(Uint8Array),
  sealedCursorSecret: z.instanceof(Uint8Array),
});
export type SealedKey = z.infer<typeof SealedKey>;

/** Question: which keys are there now? A handful of rows, read whole. */
export function listSealedKeys({ sql }: Database): Promise<SealedKey[]> {
  return list(sql);
}

/**
 * Replaces the keys by what `work` makes of them. Takes the administrator's login. One change at a time:
 * the lock lets readers through and keeps other changes out.
 */
export async function changeSealedKeys(
  { sql }: Database,
  work: (keys: readonly SealedKey[]) => Promise<readonly SealedKey[]>,
): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`lock table earshot.signing_keys in share row exclusive mode`;
    const before = await list(transaction);
    const after = await work(before);
    const kept = after.map(({ kid }) => kid);
    await transaction`
      delete from earshot.signing_keys where kid <> all (${sql.array(kept)}::text[])`;
    for (const key of after.filter(({ kid }) => !before.some((known) => known.kid === kid))) {
      await transaction`
        insert into earshot.signing_keys (kid, created_at, signs_from, sealed_key, sealed_cursor_secret)
        values (${key.kid}, ${key.createdAt}, ${key.signsFrom}, ${Buffer.from(key.sealedKey)},
          ${Buffer.from(key.sealedCursorSecret)})`;
    }
  });
}

async function list(sql: Sql): Promise<SealedKey[]> {
  return z.array(SealedKey).parse(
    await sql`
      select kid, earshot.rfc3339(created_at) as "createdAt", earshot.rfc3339(signs_from) as "signsFrom",
        sealed_key as "sealedKey", sealed_cursor_secret as "sealedCursorSecret"
      from earshot.signing_keys order by signs_from, kid`,
  );
}
