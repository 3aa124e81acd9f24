import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** Stands before a gateway: a test does something just before a request goes on, and reads every answer. */
export interface GatewayProxy {
  readonly url: string;
  /** Route and body of every answer, in order. */
  readonly answers: { readonly route: string; readonly status: number; readonly body: string }[];
  /** Runs before each request is passed on. */
  before: (route: string) => Promise<void>;
  close(): Promise<void>;
}

export async function startGatewayProxy(gateway: string): Promise<GatewayProxy> {
  const proxy: Omit<GatewayProxy, 'url' | 'close'> = {
    answers: [],
    before: () => Promise.resolve(),
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { method = 'GET', url = '/', headers } = request;
      const sent = await buffer(request);
      const route = `${method} ${url.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}').replace(/\?.*/, '')}`;
      await proxy.before(route);
      const kept = ['authorization', 'content-type', 'idempotency-key'].flatMap((name) => {
        const value = headers[name];
        return typeof value === 'string' ? [[name, value] as const] : [];
      });
      const answer = await fetch(`${gateway}${url}`, {
        method,
        headers: Object.fromEntries(kept),
        ...(sent.length > 0 && { body: Uint8Array.from(sent) }),
      });
      const body = await answer.text();
      proxy.answers.push({ route, status: answer.status, body });
      const type = answer.headers.get('content-type') ?? 'text/plain';
      response.writeHead(answer.status, { 'content-type': type }).end(body);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(proxy, {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}
