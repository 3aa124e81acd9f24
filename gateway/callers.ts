import type { Context } from 'hono';
import { refuse, type Refusal } from '../policy/refusal.ts';
import type { GrantClaims } from '../policy/grant.ts';
import { findClient, type Client, type ClientScope } from '../sql/clients.ts';
import type { TurnCaller } from '../sql/turns.ts';
import type { Gateway } from './gateway.ts';
import { verifyCaller } from './tokens/caller-token.ts';
import { verifyGrant } from './tokens/grant-token.ts';

/** A registered client that proved itself, with the scope that was asked for. */
export interface Caller extends TurnCaller {
  readonly ok: true;
  readonly organizations: readonly string[];
}

/**
 * Proves a client: a token of the local issuer, registered and not revoked, that has one of the
 * scopes and, where one is named, is registered for the organization.
 */
export async function proveCaller(
  context: Context,
  { database, keys, config }: Gateway,
  scopes: readonly ClientScope[],
  organization?: string,
): Promise<Caller | Refusal> {
  const token = bearerOf(context);
  if (token === undefined) return refuse('malformed_token');
  const verified = await verifyCaller(keys, config.issuer, token, config.clockToleranceSeconds);
  if (!verified.ok) return verified;
  const client = await findClient(database, verified.client);
  if (client === undefined)
    return refuse('malformed_token', { detail: 'The client is not registered.' });
  if (!scopes.some((scope) => client.scopes.includes(scope))) return refuse('not_permitted');
  if (organization !== undefined && !servesOrganization(client, organization)) {
    return refuse('not_permitted');
  }
  return {
    ok: true,
    client: client.id,
    personas: client.personas,
    organizations: client.organizations,
  };
}

/** Verifies the grant token of an agent. Whether the grant is live is the database's question. */
export async function proveGrant(
  context: Context,
  { keys, config }: Gateway,
): Promise<GrantClaims | Refusal> {
  const token = bearerOf(context);
  if (token === undefined) return refuse('malformed_token');
  return verifyGrant(keys, config.issuer, token, {
    clockToleranceSeconds: config.clockToleranceSeconds,
    maxLifetimeSeconds: config.grantSeconds,
  });
}

function servesOrganization({ organizations }: Client, organization: string): boolean {
  return organizations.includes('*') || organizations.includes(organization);
}

/** The bearer token (RFC 6750) of the request, if it carries exactly one. */
function bearerOf(context: Context): string | undefined {
  const header = context.req.header('authorization');
  return header === undefined ? undefined : /^Bearer ([A-Za-z0-9._~+/=-]+)$/i.exec(header)?.[1];
}
