import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import {
  judgeReplay,
  type ReaderCount,
  type ReplayChange,
  type SourceReason,
  type SourceVerdict,
  type Standing,
} from '../../policy/replay.ts';
import { findReplayFacts, type RecordedSource, type ReplayedDecision } from '../../sql/replay.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { ReplayShape } from '../shapes/replay-shape.ts';
import { Id, Uuid } from '../shapes/scalar-shape.ts';
import { answers, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

type Body = z.infer<typeof ReplayShape>;

/** A recorded decision, judged again on today's facts: for operators. Nothing is decided by it. */
export function replayRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/organizations/{org}/decisions/{decision}/replay',
      tags: ['explain'],
      request: { params: z.object({ org: Id, decision: Uuid }) },
      responses: answers('What it was, and what it comes to now.', ReplayShape),
    }),
    async (context) => {
      const { org, decision } = context.req.valid('param');
      const caller = await proveCaller(context, gateway, ['operator'], org);
      if (!caller.ok) return refused(context, caller);
      const found = await findReplayFacts(gateway.database, org, caller, decision);
      return found.ok ? context.json(replayBody(found), 200) : refused(context, found);
    },
  );
  return app;
}

function replayBody({
  decision,
  decidedAt,
  of,
  sources,
  isComplete,
  facts,
}: ReplayedDecision): Body {
  const replay = judgeReplay(facts);
  const { verdict, code, ...rest } = of;
  const then = {
    ...{ verdict, ...(code !== undefined && { code }) },
    ...standingBody(facts.then),
  };
  const shared = {
    ...{ decision, at: decidedAt, of: rest, then },
    sources: sources.map((source, place) => sourceBody(source, replay.sources[place])),
    complete: isComplete,
  };
  if (!replay.isJudged) {
    return { ...shared, outcome: 'not_judged', why: replay.why, changes: [], notRepeated: [] };
  }
  const { now, isComparable, changes, notRepeated } = replay;
  return {
    ...shared,
    outcome: changes.length === 0 ? 'same' : 'changed',
    now: { ...now, ...standingBody((facts.of.isDelivery ? facts.there : facts.own) ?? {}) },
    comparable: isComparable,
    changes: changes.map(changeBody),
    notRepeated: [...notRepeated],
  };
}

function standingBody({ fingerprint, mode, projectBound, policyRevision }: Standing) {
  return {
    ...(fingerprint !== undefined && { fingerprint }),
    ...(mode !== undefined && { mode }),
    ...(projectBound !== undefined && { projectBound }),
    ...(policyRevision !== undefined && { policyRevision: policyRevision.toString() }),
  };
}

function sourceBody(
  { type, conversation, artifact, inherited, ...numbers }: RecordedSource,
  verdict: SourceVerdict | undefined,
): Body['sources'][number] {
  const { seq, fromSeq, revision, revisionNow } = numbers;
  if (verdict === undefined) throw new Error('a source was not judged');
  return {
    ...{ type, conversation, ...(artifact !== undefined && { artifact }) },
    ...(seq !== undefined && { seq: seq.toString() }),
    ...(fromSeq !== undefined && { fromSeq: fromSeq.toString() }),
    ...(inherited && { inherited }),
    ...(revision !== undefined && { revision: revision.toString() }),
    ...(revisionNow !== undefined && { revisionNow: revisionNow.toString() }),
    now: verdict.now,
    reasons: verdict.reasons.map(reasonBody),
  };
}

function reasonBody(reason: SourceReason): Body['sources'][number]['reasons'][number] {
  return 'readers' in reason ? { ...reason, readers: countsBody(reason.readers) } : reason;
}

function changeBody(change: ReplayChange): Body['changes'][number] {
  switch (change.kind) {
    case 'audience': {
      const { kind, came, gone, floorsMoved } = change;
      return {
        kind,
        ...(came !== undefined && { came: countsBody(came) }),
        ...(gone !== undefined && { gone: countsBody(gone) }),
        ...(floorsMoved !== undefined && { floorsMoved: countsBody(floorsMoved) }),
      };
    }
    case 'policy_revision':
      return { kind: change.kind, then: change.then.toString(), now: change.now.toString() };
    case 'verdict':
    case 'mode':
    case 'project_bound':
    case 'sources':
      return change;
  }
}

function countsBody(counts: readonly ReaderCount[]) {
  return counts.map(({ ids, ...count }) => ({
    ...count,
    ...(ids !== undefined && { ids: [...ids] }),
  }));
}
