import type { OpenAPIHono } from '@hono/zod-openapi';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { contextLog, type ContextLog } from '../sessions/context-log.ts';
import { readConfig } from './config.ts';
import { openInstance } from './instance.ts';
import { digestOf, verifyGrant } from './tokens/grant-token.ts';

/** What `earshot` offers: the gateway inside another program. */
export interface EmbeddedGateway {
  /** The gateway's whole HTTP interface, to serve or to mount. */
  readonly app: OpenAPIHono;
  /**
   * The context log of a session, for the grant of a token, as an audience holds it. The token is verified here;
   * everything else is checked at each call. Its calls do what the routes of sessions do.
   */
  log(
    token: string,
    session: string,
    audienceHash: string,
  ): Promise<{ readonly ok: true; readonly log: ContextLog } | Refusal>;
  /** Ends it: its connections, and its database if that is the embedded one. */
  close(): Promise<void>;
}

/**
 * Opens a gateway from settings as the environment has them (`DATABASE_URL`, `EARSHOT_…`). A bad setting is thrown, by
 * name. The keys of its data folder have to be there: `earshot init` makes them.
 */
export async function openGateway(
  settings: Readonly<Record<string, string | undefined>> = process.env,
): Promise<EmbeddedGateway> {
  const instance = await openInstance(readConfig(settings));
  const { keys, config, database, compiling } = instance.gateway;
  return {
    app: instance.app,
    close: () => instance.close(),
    async log(token, session, audienceHash) {
      if (typeof token !== 'string') return refuse('malformed_token');
      const grant = await verifyGrant(keys, config.issuer, token, {
        clockToleranceSeconds: config.clockToleranceSeconds,
        maxLifetimeSeconds: config.grantSeconds,
      });
      if (!grant.ok) return grant;
      return {
        ok: true,
        log: contextLog(
          database,
          { digest: digestOf(grant.jti), session, audienceHash },
          compiling,
        ),
      };
    },
  };
}

export { cacheKeyFor, scopeDigest } from '../sessions/cache-key.ts';
export type { CacheKeyParts, ScopedConversation } from '../sessions/cache-key.ts';
export type {
  ContextLog,
  LogAnswer,
  LogEdit,
  LogEntry,
  NamespaceRequest,
  Place,
} from '../sessions/context-log.ts';
export { gatherInjections } from '../sessions/injections.ts';
export type { InjectionSource, InjectionUnit, SkippedSource } from '../sessions/injections.ts';
export { toAnthropic } from '../sessions/providers/anthropic-messages.ts';
export { toOpenAi } from '../sessions/providers/openai-messages.ts';
export type { CompiledLog, CompileOptions, OverBudget } from '../sessions/compile/compile-shape.ts';
export type { SummarizedRange, WrittenSummary } from '../sessions/summary-shape.ts';
export type {
  LogPage,
  LogRange,
  SearchedLog,
  SessionDescription,
  SummaryInput,
  SummaryList,
} from '../sessions/view-shape.ts';
