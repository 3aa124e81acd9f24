import { createHash } from 'node:crypto';
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { z } from 'zod';
import {
  explainSource,
  type AudienceChange,
  type Reason,
  type ReaderFacts,
  type SourceFacts,
} from '../../policy/explanation.ts';
import { refuse } from '../../policy/refusal.ts';
import { findSourceFacts } from '../../sql/explain.ts';
import { proveCallerOrPerson } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { ExplainQuery, ExplanationShape } from '../shapes/explain-shape.ts';
import { answers, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

type Body = z.infer<typeof ExplanationShape>;

/** Why a source is in or out: for operators, as themselves or as what one person would be told, and for that person. */
export function explainRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/explain',
      tags: ['explain'],
      request: { query: ExplainQuery },
      responses: answers('Why the source is in or out for this turn.', ExplanationShape),
    }),
    async (context) => {
      const { organization, seq, triggerSeq, ...query } = context.req.valid('query');
      const asker = await proveCallerOrPerson(context, gateway, ['operator'], organization);
      if (!asker.ok) return refused(context, asker);
      const isPerson = 'person' in asker;
      const viewer = isPerson ? asker.person : query.viewer;
      // A person asks as nobody but oneself.
      if (query.viewer !== undefined && query.viewer !== viewer) {
        return refused(context, refuse('not_permitted'));
      }
      const requester = query.requester ?? viewer;
      if (requester === undefined) {
        return refused(context, refuse('invalid_input', { detail: NO_REQUESTER }));
      }
      const { destination, source, persona, trigger } = query;
      const request = {
        ...{ destination, source, persona, trigger, requester },
        ...(seq !== undefined && { seq }),
        ...(triggerSeq !== undefined && { triggerSeq }),
      };
      const found = await findSourceFacts(
        gateway.database,
        organization,
        isPerson ? EVERY_PERSONA : asker,
        request,
        viewer,
        subjectOf(context.req.query()),
      );
      if (!found.ok) return refused(context, found);
      const said = explanationBody(found.facts);
      return context.json(
        { decision: found.decision, at: found.decidedAt, destination, source, ...said },
        200,
      );
    },
  );
  return app;
}

/** A registration limits the personas of a caller; a person is limited by what that person reads. */
const EVERY_PERSONA = { personas: ['*'] };
const NO_REQUESTER = 'query requester: is needed where there is no viewer';

/** The digest of what was asked, whatever the order of its parameters. */
function subjectOf(query: Readonly<Record<string, string>>): Uint8Array {
  const parameters = Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(parameters)).digest();
}

/** An explanation as it is answered. Names stand where the facts have them, and nowhere else. */
function explanationBody(
  facts: SourceFacts,
): Omit<Body, 'decision' | 'at' | 'destination' | 'source'> {
  const { isIn, reasons, intersection, changes } = explainSource(facts);
  const { turn, message, sourceFloor, readers } = facts;
  return {
    ...(message !== undefined && { seq: message.seq.toString() }),
    verdict: isIn ? 'in' : 'out',
    ...('mode' in turn && {
      mode: turn.mode,
      ...(turn.projectBound !== undefined && { projectBound: turn.projectBound }),
    }),
    ...(sourceFloor !== undefined && { effectiveFloor: sourceFloor.toString() }),
    reasons: reasons.map(reasonBody),
    grid: { readers: readers.map(readerBody), floor: intersection?.toString() ?? null },
    changes: changes.map(changeBody),
  };
}

function readerBody(reader: ReaderFacts): Body['grid']['readers'][number] {
  const { kind, id, isGuest, isViewer, destinationFloor, floor } = reader;
  return {
    ...(id !== undefined && { reader: kind === 'class:organization' ? kind : `${kind}:${id}` }),
    kind,
    // Who is a guest says something of a person; nobody without a name has it said.
    ...(isGuest && id !== undefined && { guest: true }),
    ...(isViewer && { viewer: true }),
    destinationFloor: destinationFloor.toString(),
    floor: floor?.toString() ?? null,
  };
}

function reasonBody(reason: Reason): Body['reasons'][number] {
  return 'readers' in reason ? { ...reason, readers: [...reason.readers] } : reason;
}

function changeBody(change: AudienceChange): Body['changes'][number] {
  const readers = [...change.readers];
  if (change.kind === 'without') return { kind: change.kind, readers };
  const { kind, atMost } = change;
  return { kind, readers, ...(atMost !== undefined && { atMost: atMost.toString() }) };
}
