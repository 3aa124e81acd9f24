import type { z } from '@hono/zod-openapi';
import { expect } from 'vitest';
import type { ExplanationShape } from '../../gateway/shapes/explain-shape.ts';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import { pairOf, type Pair } from './pair.ts';

export type Explanation = z.infer<typeof ExplanationShape>;
type Parameters = Readonly<Record<string, string | undefined>>;

/** A pair, and questions about it. */
export interface Explaining extends Pair {
  /** Asks as an operator about a turn of ana toward the thread of ana and ben, unless it says otherwise. */
  readonly ask: (source: string, more?: Parameters, token?: string) => Promise<Answer>;
  /** What was told, without what differs each time. */
  readonly told: (
    source: string,
    more?: Parameters,
    token?: string,
  ) => Promise<Omit<Explanation, 'decision' | 'at'>>;
}

export async function explainingOf(gateway: TestGateway): Promise<Explaining> {
  const pair = await pairOf(gateway);
  const ask: Explaining['ask'] = (source, more = {}, token = gateway.tokens.operator) => {
    const query = new URLSearchParams();
    const asked: Parameters = {
      ...{ organization: pair.acme.name, destination: 'thread', source, requester: 'ana' },
      ...{ persona: 'assistant', ...more },
    };
    for (const [name, value] of Object.entries(asked)) {
      if (value !== undefined) query.set(name, value);
    }
    return gateway.send('GET', `/v1/explain?${query.toString()}`, { token });
  };
  return {
    ...pair,
    ask,
    async told(...question) {
      const { decision, at, ...rest } = ok(await ask(...question)) as Explanation;
      expect(decision).toMatch(/^[0-9a-f-]{36}$/);
      expect(at).toMatch(/^[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z$/);
      return rest;
    },
  };
}

/** All that a caller can see of an answer. */
export function bytesOf({ status, headers, body }: Answer): string {
  return JSON.stringify([status, [...headers], body]);
}
