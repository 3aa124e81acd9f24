import type { OpenAPIHono } from '@hono/zod-openapi';
import type { z } from 'zod';
import { Problem } from '../problem.ts';

/** Calls the gateway's own HTTP app in this process: the whole way of a request, without a socket. */
export interface LocalCaller {
  call<Shape extends z.ZodType>(
    shape: Shape,
    request: LocalRequest,
  ): Promise<{ readonly ok: true; readonly body: z.infer<Shape> } | Refused>;
}

interface LocalRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly path: string;
  /** A caller's token, or a grant's. */
  readonly token: string;
  readonly body?: object;
  /** A body of NDJSON. */
  readonly lines?: readonly object[];
  /** The idempotency key. */
  readonly key?: string;
}

export interface Refused {
  readonly ok: false;
  readonly status: number;
  readonly problem: z.infer<typeof Problem>;
}

export function localCaller(app: OpenAPIHono): LocalCaller {
  return {
    async call(shape, { method, path, token, body, lines, key }) {
      const text = lines?.map((line) => JSON.stringify(line)).join('\n') ?? JSON.stringify(body);
      const response = await app.request(path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(lines !== undefined && { 'content-type': 'application/x-ndjson' }),
          ...(key !== undefined && { 'idempotency-key': key }),
        },
        ...((body ?? lines) !== undefined && { body: text }),
      });
      const answer: unknown = await response.json();
      return response.ok
        ? { ok: true, body: shape.parse(answer) }
        : { ok: false, status: response.status, problem: Problem.parse(answer) };
    },
  };
}
