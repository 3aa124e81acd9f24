import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What the server says: an answer, no answer at all, or a connection that is cut. */
export type Reply = Said | 'silence' | 'cut';

interface Said {
  readonly status: number;
  readonly json?: unknown;
  readonly html?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RecordedRequest {
  /** Method and path, without the query. */
  readonly route: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

/** A server that says what it is told to, and records each request. */
export interface FakeServer {
  readonly url: string;
  readonly requests: RecordedRequest[];
  /** Says what a route answers, in turn; the last reply stands for all that follow. */
  script(route: string, ...replies: Reply[]): void;
  /** The routes asked for so far. */
  asked(): string[];
  reset(): void;
  close(): Promise<void>;
}

/** What a load balancer says of a path that it does not know. */
export const NOT_HERE: Reply = { status: 404, html: '<h1>404 Not Found</h1>' };

/** A problem of the gateway's. */
export function problemReply(status: number, code: string, more: object = {}): Said {
  return {
    status,
    json: { type: 'about:blank', title: code, status, detail: code, code, ...more },
  };
}

export async function startFakeServer(): Promise<FakeServer> {
  const requests: RecordedRequest[] = [];
  const scripts = new Map<string, Reply[]>();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = `${request.method ?? ''} ${(request.url ?? '').split('?')[0] ?? ''}`;
    const sent = await text(request);
    const body: unknown = sent === '' ? undefined : JSON.parse(sent);
    requests.push({ route, headers: request.headers, body });
    const replies = scripts.get(route) ?? [];
    const reply = (replies.length > 1 ? replies.shift() : replies[0]) ?? NOT_HERE;
    if (reply === 'silence') return;
    if (reply === 'cut') {
      request.socket.destroy();
      return;
    }
    const type = reply.html === undefined ? 'application/json' : 'text/html';
    response.writeHead(reply.status, { 'content-type': type, ...reply.headers });
    response.end(reply.html ?? JSON.stringify(reply.json));
  }

  const server = createServer((request, response) => {
    void answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    script: (route, ...replies) => {
      scripts.set(route, replies);
    },
    asked: () => requests.map(({ route }) => route),
    reset: () => {
      requests.length = 0;
      scripts.clear();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
