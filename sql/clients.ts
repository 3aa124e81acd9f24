import { z } from 'zod';
import type { Database } from './database.ts';

export const CLIENT_SCOPES = ['bridge', 'deliver', 'ingest', 'operator'] as const;
export type ClientScope = (typeof CLIENT_SCOPES)[number];

/** A registered caller: what it may do, for which organizations and personas (`*`: every one). */
const Client = z.object({
  id: z.string(),
  scopes: z.array(z.enum(CLIENT_SCOPES)),
  organizations: z.array(z.string()),
  personas: z.array(z.string()),
});
export type Client = z.infer<typeof Client>;

/** A client that is registered and not revoked, asked anew at every request (INVARIANT 6). */
export async function findClient({ sql }: Database, id: string): Promise<Client | undefined> {
  const [row] = await sql`
    select id, scopes, organizations, personas from earshot.clients
    where id = ${id} and revoked_at is null`;
  return row === undefined ? undefined : Client.parse(row);
}

/** Registers a client. A known id keeps what it has; false says so. */
export async function addClient({ sql }: Database, client: Client): Promise<boolean> {
  const rows = await sql`
    insert into earshot.clients (id, scopes, organizations, personas)
    values (${client.id}, ${sql.array([...client.scopes])}::text[],
      ${sql.array([...client.organizations])}::text[], ${sql.array([...client.personas])}::text[])
    on conflict (id) do nothing returning id`;
  return rows.length === 1;
}
