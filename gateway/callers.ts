import type { Context } from 'hono';
import type { GrantClaims } from '../policy/grant.ts';
import { parseExternalId, type ExternalId } from '../policy/identity.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { findClient, findClientOfIssuer, type Client, type ClientScope } from '../sql/clients.ts';
import type { TurnCaller } from '../sql/turns.ts';
import type { Gateway } from './gateway.ts';
import { claimedIssuer } from './issuers.ts';
import { verifyCaller } from './tokens/caller-token.ts';
import { verifyGrant } from './tokens/grant-token.ts';

/** A registered client that proved itself, with the scope that was asked for. */
export interface Caller extends TurnCaller {
  readonly ok: true;
  readonly organizations: readonly string[];
  /** Those it has of the scopes that were asked for: at least one. */
  readonly scopes: readonly ClientScope[];
  /** Whether it is told, by id, who came to an audience and who went. */
  readonly seesNames: boolean;
}

/** A person of an organization that proved to be that person, and nothing more: not that the user is active. */
export interface ProvenPerson {
  readonly ok: true;
  readonly person: ExternalId;
  readonly organization: string;
}

/**
 * Proves a client: a token of the local issuer or of a configured one, of a client that is registered for
 * that issuer and not revoked, that has one of the scopes and, where one is named, is registered for
 * the organization.
 */
export async function proveCaller(
  context: Context,
  gateway: Gateway,
  scopes: readonly ClientScope[],
  organization?: string,
): Promise<Caller | Refusal> {
  const token = await verifyBearer(context, gateway);
  if (!token.ok) return token;
  const client = await findClientOf(gateway, token);
  if (client === undefined) return NOT_REGISTERED;
  return judgeClient(client, token, scopes, organization);
}

/**
 * Proves a person by a token of an issuer that proves the people of this organization. Whether the
 * organization has such a user is not checked: what the person may see is the database's question.
 */
export async function provePerson(
  context: Context,
  gateway: Gateway,
  organization: string,
): Promise<ProvenPerson | Refusal> {
  const token = await verifyBearer(context, gateway);
  return token.ok ? judgePerson(gateway, token, organization) : token;
}

/** Proves a client as {@link proveCaller} does, or else, where the token is of no client, a person. */
export async function proveCallerOrPerson(
  context: Context,
  gateway: Gateway,
  scopes: readonly ClientScope[],
  organization: string,
): Promise<Caller | ProvenPerson | Refusal> {
  const token = await verifyBearer(context, gateway);
  if (!token.ok) return token;
  const client = await findClientOf(gateway, token);
  return client === undefined
    ? judgePerson(gateway, token, organization)
    : judgeClient(client, token, scopes, organization);
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

/** A token that verified: who signed it, about whom, and what else it says. */
interface VerifiedBearer {
  readonly ok: true;
  /** Absent: the local issuer. */
  readonly issuer?: string;
  readonly subject: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

const NOT_REGISTERED = refuse('malformed_token', { detail: 'The client is not registered.' });

/** Verifies the bearer token by the issuer that it names, which proves what is registered for it and nothing else. */
async function verifyBearer(
  context: Context,
  { keys, config, issuers }: Gateway,
): Promise<VerifiedBearer | Refusal> {
  const token = bearerOf(context);
  if (token === undefined) return refuse('malformed_token');
  const issuer = claimedIssuer(token);
  if (issuer === config.issuer) {
    const verified = await verifyCaller(keys, config.issuer, token, config.clockToleranceSeconds);
    if (!verified.ok) return verified;
    return { ok: true, subject: verified.client, claims: verified.claims };
  }
  const verified = await issuers.get(issuer ?? '')?.verify(token);
  if (verified === undefined) return refuse('malformed_token');
  if (!verified.ok) return verified;
  const { claims } = verified;
  return { ok: true, issuer: claims.iss ?? '', subject: claims.sub, claims };
}

function findClientOf(
  { database }: Gateway,
  { issuer, subject }: VerifiedBearer,
): Promise<Client | undefined> {
  return issuer === undefined
    ? findClient(database, subject)
    : findClientOfIssuer(database, issuer, subject);
}

function judgeClient(
  client: Client,
  token: VerifiedBearer,
  scopes: readonly ClientScope[],
  organization: string | undefined,
): Caller | Refusal {
  const narrowed = scopesIn(token.claims);
  if (narrowed === undefined) return refuse('malformed_token');
  const has = (scope: ClientScope) =>
    client.scopes.includes(scope) && (narrowed === 'all' || narrowed.includes(scope));
  const granted = scopes.filter(has);
  if (granted.length === 0) return refuse('not_permitted');
  if (organization !== undefined && !servesOrganization(client, organization)) {
    return refuse('not_permitted');
  }
  const { id, personas, organizations } = client;
  const known = { client: id, personas, organizations, scopes: granted };
  return { ok: true, ...known, seesNames: has('names') };
}

function judgePerson(
  { issuers }: Gateway,
  { issuer, claims }: VerifiedBearer,
  organization: string,
): ProvenPerson | Refusal {
  const people = issuer === undefined ? undefined : issuers.get(issuer)?.people;
  if (people === undefined) return NOT_REGISTERED;
  const claim = Object.hasOwn(claims, people.claim) ? claims[people.claim] : undefined;
  const parsed = typeof claim === 'string' ? parseExternalId(claim) : undefined;
  if (!parsed?.ok) return refuse('malformed_token', { detail: 'The token names no person.' });
  if (!people.organizations.includes(organization)) return refuse('not_permitted');
  return { ok: true, person: parsed.id, organization };
}

/** What a token leaves of its client's scopes (RFC 8693). It narrows and never widens; of another kind it is no token. */
function scopesIn({ scope }: VerifiedBearer['claims']): readonly string[] | 'all' | undefined {
  if (scope === undefined) return 'all';
  return typeof scope === 'string' ? scope.split(' ') : undefined;
}

function servesOrganization({ organizations }: Client, organization: string): boolean {
  return organizations.includes('*') || organizations.includes(organization);
}

/** The bearer token (RFC 6750) of the request, if it carries exactly one. */
function bearerOf(context: Context): string | undefined {
  const header = context.req.header('authorization');
  return header === undefined ? undefined : /^Bearer ([A-Za-z0-9._~+/=-]+)$/i.exec(header)?.[1];
}
