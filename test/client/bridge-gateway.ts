import { createClient, type Client, type ClientOptions } from '../../client/client.ts';
import type { TestGateway } from '../support/gateway.ts';

/** A request as it reached the gateway. */
export interface Seen {
  readonly route: string;
  readonly status: number;
}

/** A client of a real gateway in this process, with what it asked, and a hook before each request. */
export function clientOf(
  gateway: TestGateway,
  scope: 'bridge' | 'deliver',
  options: Partial<ClientOptions> & { readonly before?: (route: string) => Promise<void> } = {},
): { client: Client; seen: Seen[] } {
  const seen: Seen[] = [];
  const { before, ...rest } = options;
  const fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const { pathname, search } = new URL(input instanceof Request ? input.url : input);
    const route = `${init?.method ?? 'GET'} ${pathname.replace(/[0-9a-f-]{36}/, '{id}')}`;
    await before?.(route);
    init?.signal?.throwIfAborted();
    const response = await gateway.app.request(pathname + search, init);
    seen.push({ route, status: response.status });
    return response;
  };
  const client = createClient({
    baseUrl: 'http://gateway.test',
    token: gateway.tokens[scope],
    fetch,
    ...rest,
  });
  return { client, seen };
}
