import { randomBytes, randomUUID } from 'node:crypto';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { introspectGrant, mintGrant, type GrantPacket } from '../../sql/grants.ts';
import { extendLease } from '../../sql/turns.ts';
import { findAudiences, type AudienceGroup, type AudienceLimits } from './audiences.ts';
import { floorCases } from './floor.ts';
import { liveCheckCases, startAsking, turnAt, type Asking } from './grant-cases.ts';
import { openHttpCases, SIGN, VERIFY } from './http-cases.ts';
import { measure, type Case, type Effort, type Measurement } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

/** What a run of the grant bench found. */
export interface GrantResult {
  readonly groups: readonly AudienceGroup[];
  /** Grants that were asked about in every way before anything was measured, and are the same in all. */
  readonly compared: number;
  readonly measured: readonly Measurement[];
}

export const HEARTBEAT = 'heartbeat of a lease';
export const mintName = ({ name }: { name: string }) => `mint: ${name}`;
export const introspectName = ({ name }: { name: string }) => `introspect: ${name}`;

/** Audiences of anybody, and of people who share much: the check is to cost the same for both. */
const GROUPS = ['uni2', 'uni20', 'uni200', 'uni1000', 'squad2', 'squad20', 'team100', 'team1000'];
const CALLER = { client: 'bench', personas: ['*'], organizations: ['*'], seesNames: false };

/** Measures what a grant costs beside what it lets through: its check, its mint, its introspection. */
export async function measureGrant(
  database: BenchDatabase,
  effort: Effort & AudienceLimits,
  say: (line: string) => void,
): Promise<GrantResult> {
  const groups = (await findAudiences(database, effort)).filter(({ name }) =>
    GROUPS.includes(name),
  );
  groups.sort((a, b) => GROUPS.indexOf(a.name) - GROUPS.indexOf(b.name));
  say('Opening turns.');
  const checked: Asking[] = [];
  const minting: Asking[] = [];
  for (const group of groups) {
    checked.push(await startAsking(database, group));
    // Turns of their own: a mint ends the grant before it.
    minting.push(await startAsking(database, group));
  }
  const [first] = checked;
  if (first === undefined) throw new Error('The data has no audience.');
  let compared = 0;
  for (const { turns } of checked) {
    for (const turn of turns) {
      const found = await introspectGrant(database.gateway, CALLER, turn.digest);
      if (found?.audienceHash !== turn.packet.audienceHash || found.grant !== turn.packet.grantId)
        throw new Error('A grant is not what was minted.');
      compared += 1;
    }
  }
  const http = await openHttpCases(database, first);
  try {
    say('Measuring.');
    const measured = await measure(
      [
        ...floorCases(database),
        ...http.cases.filter(({ name }) => name === SIGN || name === VERIFY),
        ...liveCheckCases(database, checked),
        ...introspectCases(database, checked),
        ...mintCases(database, minting),
        heartbeatCase(database, first),
      ],
      effort,
    );
    return { groups, compared, measured };
  } finally {
    await http.close();
  }
}

function introspectCases({ gateway }: BenchDatabase, all: readonly Asking[]): Case[] {
  return all.map((asking) => ({
    name: introspectName(asking.group),
    async run(turn) {
      const found = await introspectGrant(gateway, CALLER, turnAt(asking, turn).digest);
      if (found === undefined) throw new Error('A grant is not live.');
    },
  }));
}

const leaseOf = ({ leaseId, leaseOwner, leaseFence }: GrantPacket) => ({
  ...{ leaseId, owner: leaseOwner, fence: leaseFence },
});

/** Another grant for a running turn: what a longer turn does each time its grant is about to end. */
function mintCases({ gateway }: BenchDatabase, all: readonly Asking[]): Case[] {
  return all.map((asking) => ({
    name: mintName(asking.group),
    async run(turn) {
      const { packet } = turnAt(asking, turn);
      const digest = digestOf(randomBytes(32).toString('base64url'));
      const minted = await mintGrant(gateway, 'bench', CALLER, packet.turnId, leaseOf(packet), {
        id: randomUUID(),
        digest,
        lifetimeSeconds: 3_600,
      });
      if (!minted.ok) throw new Error(`A mint is refused: ${minted.code}.`);
    },
  }));
}

function heartbeatCase({ gateway }: BenchDatabase, asking: Asking): Case {
  return {
    name: HEARTBEAT,
    async run(turn) {
      const { packet } = turnAt(asking, turn);
      const lease = leaseOf(packet);
      const extended = await extendLease(gateway, 'bench', CALLER, packet.turnId, lease, 3_600);
      if (!extended.ok) throw new Error(`A heartbeat is refused: ${extended.code}.`);
    },
  };
}
