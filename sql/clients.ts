import { z } from 'zod';
import type { Database } from './database.ts';

export const CLIENT_SCOPES = ['bridge', 'deliver', 'ingest', 'operator', 'names'] as const;
export type ClientScope = (typeof CLIENT_SCOPES)[number];

/** A registered caller: what it may do, for which organizations and personas (`*`: every one). */
const Client = z.object({
  id: z.string(),
  scopes: z.array(z.enum(CLIENT_SCOPES)),
  organizations: z.array(z.string()),
  personas: z.array(z.string()),
});
export type Client = z.infer<typeof Client>;

/** A client of a configured issuer, which names it by a subject of its own. */
export interface IssuerSubject {
  readonly issuer: string;
  readonly subject: string;
}

const RegisteredClient = Client.extend({
  issuer: z.string().nullable(),
  subject: z.string().nullable(),
  /** RFC 3339. */
  createdAt: z.string(),
  revokedAt: z.string().nullable(),
});
export type RegisteredClient = z.infer<typeof RegisteredClient>;

/** A client of the local issuer that is registered and not revoked, asked anew at every request (INVARIANT 6). */
export async function findClient({ sql }: Database, id: string): Promise<Client | undefined> {
  const [row] = await sql`
    select id, scopes, organizations, personas from earshot.clients
    where id = ${id} and issuer is null and revoked_at is null`;
  return row === undefined ? undefined : Client.parse(row);
}

/** As {@link findClient}, a client of another issuer: a subject is a name of its issuer's and of no other. */
export async function findClientOfIssuer(
  { sql }: Database,
  issuer: string,
  subject: string,
): Promise<Client | undefined> {
  const [row] = await sql`
    select id, scopes, organizations, personas from earshot.clients
    where issuer = ${issuer} and subject = ${subject} and revoked_at is null`;
  return row === undefined ? undefined : Client.parse(row);
}

/** Every client that was ever registered, for an administrator. There are no secrets among it. */
export async function listClients({ sql }: Database): Promise<RegisteredClient[]> {
  return z.array(RegisteredClient).parse(
    await sql`
      select id, scopes, organizations, personas, issuer, subject, earshot.rfc3339(created_at) as "createdAt",
        earshot.rfc3339(revoked_at) as "revokedAt"
      from earshot.clients order by id`,
  );
}

/**
 * Registers a client, of the local issuer unless a subject is given. Takes the administrator's login. False where
 * the id was ever used, or the subject is registered: what is there is left as it is.
 */
export async function addClient(
  { sql }: Pick<Database, 'sql'>,
  client: Client,
  of?: IssuerSubject,
): Promise<boolean> {
  const rows = await sql`
    insert into earshot.clients (id, scopes, organizations, personas, issuer, subject)
    values (${client.id}, ${sql.array([...client.scopes])}::text[],
      ${sql.array([...client.organizations])}::text[], ${sql.array([...client.personas])}::text[],
      ${of?.issuer ?? null}, ${of?.subject ?? null})
    on conflict do nothing returning id`;
  return rows.length === 1;
}

/** Revokes a client for good: it is refused from its next request on. Takes the administrator's login. False if it is not there. */
export async function revokeClient({ sql }: Pick<Database, 'sql'>, id: string): Promise<boolean> {
  const rows = await sql`
    update earshot.clients set revoked_at = coalesce(revoked_at, clock_timestamp())
    where id = ${id} returning id`;
  return rows.length === 1;
}
