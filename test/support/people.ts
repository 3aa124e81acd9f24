import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { openIssuers, type Issuer } from '../../gateway/issuers.ts';
import type { TestGateway } from './gateway.ts';

/** An issuer that proves the people of the organizations it is told of, by their ids. */
export interface People {
  /** From now on it proves the people of this one too. */
  admit(organization: string): void;
  tokenOf(person: string): Promise<string>;
}

/** Adds such an issuer to a gateway that is open already, as the configuration would have. */
export async function openPeople({ gateway }: Pick<TestGateway, 'gateway'>): Promise<People> {
  const [name, audience] = ['https://people.test', 'https://earshot.test'];
  const folder = await mkdtemp(join(tmpdir(), 'earshot-people-'));
  const { publicKey, privateKey } = await generateKeyPair('EdDSA', { extractable: true });
  const file = join(folder, 'keys.json');
  const key = { ...(await exportJWK(publicKey)), kid: 'people', alg: 'EdDSA' };
  await writeFile(file, JSON.stringify({ keys: [key] }));
  const organizations: string[] = [];
  const settings = { issuer: name, audience, file, algorithms: ['EdDSA' as const] };
  const [opened] = await openIssuers([{ ...settings, people: { organizations, claim: 'sub' } }], 5);
  if (opened === undefined) throw new Error('The issuer is not there.');
  const people: People = {
    admit: (organization) => void organizations.push(organization),
    tokenOf: (person) =>
      new SignJWT({ sub: person })
        .setProtectedHeader({ alg: 'EdDSA', kid: 'people' })
        .setIssuer(name)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
  };
  // Its keys are read with the first token, and kept for longer than any test.
  await opened[1].verify(await people.tokenOf('nobody'));
  await rm(folder, { recursive: true });
  (gateway.issuers as Map<string, Issuer>).set(...opened);
  return people;
}
