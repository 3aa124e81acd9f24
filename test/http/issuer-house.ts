import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';

/** An issuer of others with a server for its keys, which remembers every request it gets. */
export interface IssuerHouse {
  readonly name: string;
  readonly origin: string;
  /** The paths that were asked for. */
  readonly requests: string[];
  /** What the server answers at `/keys` from now on: its keys, an error, a redirect, or nothing sensible. */
  state: 'up' | 'down' | 'redirects' | 'nonsense';
  /** Makes a key and publishes it, unless it is kept back. */
  addKey(kid: string, algorithm: string, published?: boolean): Promise<HouseKey>;
  withdraw(kid: string): void;
  /** The key set that it publishes. */
  keySet(): { keys: JWK[] };
  /** Stops listening, as a host that is gone. */
  stop(): Promise<void>;
}

export interface HouseKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
  /** Signs a token of this issuer for a minute, with other claims and another header if they are given. */
  sign(claims?: object, header?: object): Promise<string>;
}

export async function openIssuerHouse(name: string, audience: string): Promise<IssuerHouse> {
  const published = new Map<string, JWK>();
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    switch (request.url === '/elsewhere' ? 'up' : house.state) {
      case 'up':
        response.setHeader('content-type', 'application/json').end(JSON.stringify(house.keySet()));
        return;
      case 'down':
        response.writeHead(503).end();
        return;
      case 'redirects':
        response.writeHead(302, { location: `${house.origin}/elsewhere` }).end();
        return;
      case 'nonsense':
        response.end('{"keys": 7}');
        return;
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const house: IssuerHouse = {
    name,
    origin: `http://127.0.0.1:${port}`,
    requests,
    state: 'up',
    async addKey(kid, algorithm, isPublished = true) {
      const pair = await generateKeyPair(algorithm, { extractable: true });
      const publicJwk = { ...(await exportJWK(pair.publicKey)), kid, alg: algorithm };
      if (isPublished) published.set(kid, publicJwk);
      return {
        kid,
        privateKey: pair.privateKey,
        publicJwk,
        sign(claims = {}, header = {}) {
          const now = Math.floor(Date.now() / 1000);
          const all = { iss: name, aud: audience, iat: now, exp: now + 60, ...claims };
          return new SignJWT(all)
            .setProtectedHeader({ alg: algorithm, kid, ...header })
            .sign(pair.privateKey);
        },
      };
    },
    withdraw: (kid) => void published.delete(kid),
    keySet: () => ({ keys: [...published.values()] }),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return house;
}
