import { ok, type TestGateway } from '../support/gateway.ts';
import { logOf } from '../support/log.ts';
import type { Delivery, TestOrganization, TestTurn } from '../support/organization.ts';
import { askAna, saveDraft } from './release-house.ts';

/** A request that every route accepts as it is, for tests to spoil in one place. */
export interface SoundRequest {
  readonly method: string;
  /** As the OpenAPI document writes it. */
  readonly route: string;
  readonly path: string;
  readonly token: string;
  /** The scopes of which a caller needs one; none where a grant or a person's token is asked for. */
  readonly scopes: readonly ('bridge' | 'deliver' | 'ingest' | 'operator')[];
  readonly key?: string;
  readonly json?: Readonly<Record<string, unknown>>;
  /** NDJSON in place of JSON. */
  readonly lines?: string;
}

export interface Surroundings {
  readonly gateway: TestGateway;
  readonly acme: TestOrganization;
  readonly turn: TestTurn;
  /** The decision of a search. */
  readonly decision: string;
  readonly delivery: Delivery;
  /** One that waits for an approval. */
  readonly waiting: Delivery;
  /** A release that a person is asked for, and that person's token. */
  readonly asked: Awaited<ReturnType<typeof askAna>>;
  /** The id of an artifact that nothing else is about. */
  readonly saved: string;
  /** The id of an entry in the log of the turn's session. */
  readonly entry: string;
  /** Which entries a summary of it alone is of, as its input says. */
  readonly state: string;
  /** A fork of that session, to be closed: the session itself is used on. */
  readonly fork: string;
}

/** An organization with a running turn and a cleared delivery, for the requests to name. */
export async function surroundingsOf(gateway: TestGateway): Promise<Surroundings> {
  await gateway.organization('spare');
  const acme = await gateway.organization('acme');
  await acme.users('ana', 'ben');
  await acme.facts({ fact: 'project', id: 'apollo' });
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true, owner: 'ana' });
  await acme.put('conversations/thread/messages/m1', {
    author: { user: 'ana' },
    body: 'which canary',
    sentAt: '2026-01-01T00:00:00Z',
  });
  const request = { destination: 'thread', requester: 'ana', trigger: '1' };
  const turn = await acme.turn(request);
  const { decision } = ok(await turn.tool('search', { query: 'canary' }));
  const { body: delivery } = await turn.propose('the canary sang');
  const { body: waiting } = await turn.propose('the canary waits', { approval: true });
  const asked = await askAna(gateway, acme, turn);
  const log = logOf(gateway, turn);
  const [entry = ''] = await log.append({
    ...{ role: 'agent', participant: 'assistant', blocks: [{ type: 'text', text: 'canary' }] },
  });
  const { state = '' } = ok(await log.summaryInput(entry, entry));
  const { session: fork } = await log.fork('aside');
  const { id: saved } = await saveDraft(gateway, turn, 'canaries sing');
  return { gateway, acme, turn, decision, delivery, waiting, asked, saved, entry, state, fork };
}

/** One sound request for each route that asks who calls. */
export function soundRequests({
  gateway,
  turn,
  decision,
  delivery,
  waiting,
  asked,
  saved,
  entry,
  state,
  fork,
}: Surroundings): SoundRequest[] {
  const { ingest, operator, bridge, deliver } = gateway.tokens;
  const organization = 'acme';
  const { lease, grant } = turn;
  const session = (
    method: string,
    step: string,
    json?: SoundRequest['json'],
    more: Partial<SoundRequest> = {},
  ): SoundRequest => ({
    ...{ method, route: `/v1/sessions/{session}${step.replaceAll(entry, '{entry}')}` },
    path: `/v1/sessions/${grant.sessionId}${step}?audience=${grant.audienceHash}`,
    token: grant.token,
    scopes: [],
    ...(json !== undefined && { json }),
    ...more,
  });
  const injection = {
    source: 'host',
    parts: [{ text: 'canary', sources: [{ conversation: 'thread', seq: '1' }] }],
    position: 'after_user',
    placement: 'stored',
  };
  const at = '/v1/organizations/{org}';
  const place = '/v1/organizations/acme';
  const room = `${place}/conversations/thread`;

  const facts = (method: string, route: string, path: string, json?: SoundRequest['json']) => ({
    ...{ method, route: `${at}${route}`, path, token: ingest },
    scopes: ['ingest', 'operator'] as const,
    ...(json !== undefined && { json }),
  });
  const operated = (method: string, route: string, path: string, json?: SoundRequest['json']) => ({
    ...{ method, route: `${at}${route}`, path, token: operator, scopes: ['operator'] as const },
    ...(json !== undefined && { json }),
  });
  const ofTurn = (step: string, json: SoundRequest['json']) => ({
    ...{ method: 'POST', route: `/v1/turns/{turn}/${step}`, path: `/v1/turns/${turn.id}/${step}` },
    token: bridge,
    scopes: step === 'stop' ? (['bridge', 'operator'] as const) : (['bridge'] as const),
    json: { organization, ...json },
  });
  const tool = (name: string, json: SoundRequest['json']) => ({
    ...{ method: 'POST', route: `/v1/tools/${name}`, path: `/v1/tools/${name}` },
    token: grant.token,
    scopes: [],
    json: json ?? {},
  });
  const ofDelivery = (step: string, json: SoundRequest['json']) => ({
    method: 'POST',
    route: `/v1/deliveries/{delivery}/${step}`,
    path: `/v1/deliveries/${delivery.id}/${step}`,
    token: deliver,
    scopes: ['deliver'] as const,
    json: { organization, ...json },
  });

  return [
    tool('search', {
      query: 'canary',
      limit: 3,
      conversation: 'thread',
      author: 'ana',
      kind: 'message',
      since: '2026-01-01T00:00:00Z',
      until: '2036-01-01T00:00:00Z',
      recipient: 'ben',
    }),
    tool('read', { conversation: 'thread', fromSeq: '1', direction: 'forward', limit: 3 }),
    tool('around', { conversation: 'thread', seq: '1', before: 1, after: 1, recipient: 'ben' }),
    tool('thread', { conversation: 'thread', seq: '1', limit: 3 }),
    tool('list_conversations', { limit: 3, recipient: 'ben' }),
    { method: 'GET', route: '/v1/tools', path: '/v1/tools', token: grant.token, scopes: [] },
    {
      method: 'POST',
      route: '/v1/retrieve',
      path: `/v1/retrieve?session=${grant.sessionId}&audience=${grant.audienceHash}`,
      token: grant.token,
      scopes: [],
      json: {
        calls: [
          { tool: 'search', arguments: { query: 'canary', limit: 3, author: 'ana' } },
          { tool: 'read', arguments: { conversation: 'thread', fromSeq: '1', limit: 3 } },
          { tool: 'around', arguments: { conversation: 'thread', seq: '1', before: 1, after: 1 } },
          { tool: 'thread', arguments: { conversation: 'thread', seq: '1', limit: 3 } },
          { tool: 'list_conversations', arguments: { limit: 3, recipient: 'ben' } },
        ],
        store: true,
        source: 'recalled',
      },
    },
    session('GET', ''),
    session(
      'POST',
      '/summaries',
      {
        from: entry,
        to: entry,
        state,
        text: 'a bird',
        sources: [{ conversation: 'thread', seq: '1' }],
      },
      { key: 'summary' },
    ),
    session('GET', '/summaries'),
    session(
      'POST',
      '/entries',
      {
        entries: [
          {
            role: 'agent',
            participant: 'assistant',
            blocks: [{ type: 'text', text: 'canary', audience: ['ana'] }],
            sources: [{ conversation: 'thread', seq: '1', block: 0 }],
          },
        ],
      },
      { key: 'sound' },
    ),
    session('GET', '/entries'),
    session('PATCH', `/entries/${entry}`, {
      revision: '1',
      edit: { blocks: [{ type: 'text', text: 'canary' }] },
    }),
    ...['/compile', '/preview'].map((reading) =>
      session('POST', reading, {
        budget: 10_000,
        headTokens: 10,
        recentTokens: 10,
        maxEntryTokens: 100,
        pruneToolResults: 1,
        pins: [entry],
        estimator: 'o200k_base',
        model: 'large',
        self: 'assistant',
        injections: [injection],
        format: 'anthropic',
      }),
    ),
    session('POST', '/injections', { injections: [injection] }),
    session('POST', '/search', { query: 'canary', limit: 3 }),
    session('POST', '/summary-input', { from: entry, to: entry }),
    session('GET', '/pins'),
    session('PUT', `/pins/${entry}`),
    session('DELETE', `/pins/${entry}`),
    session('POST', '/namespaces', { name: 'desk', agent: 'helper', reader: 'ana' }),
    session('POST', '/fork', { name: 'side' }),
    session('PUT', '/primary', { agent: 'resident' }),
    session('POST', '/close', undefined, {
      path: `/v1/sessions/${fork}/close?audience=${grant.audienceHash}`,
    }),
    {
      ...{ method: 'POST', route: '/v1/deliveries', path: '/v1/deliveries', token: grant.token },
      ...{ key: 'sound', scopes: [] },
      json: {
        ...{ destination: 'thread', payload: 'another', contentType: 'text/plain' },
        ...{ queue: true, sendAt: '2026-01-01T00:00:00Z', approval: false },
      },
    },
    {
      ...{ method: 'GET', route: '/v1/deliveries', token: deliver },
      path: '/v1/deliveries?organization=acme&status=cleared&destination=thread&limit=3',
      scopes: ['bridge', 'deliver', 'operator'],
    },
    {
      ...{ method: 'POST', route: '/v1/deliveries/claim', path: '/v1/deliveries/claim' },
      ...{ token: deliver, scopes: ['deliver'] },
      json: { organization, worker: 'one', destinations: ['thread'], limit: 1, leaseSeconds: 30 },
    },
    {
      ...{ method: 'POST', route: '/v1/deliveries/{delivery}/approve', token: operator },
      path: `/v1/deliveries/${waiting.id}/approve`,
      scopes: ['operator'],
      json: { organization, payloadSha256: waiting.payloadSha256 },
    },
    {
      ...{ method: 'POST', route: '/v1/deliveries/{delivery}/discard', token: operator },
      path: `/v1/deliveries/${waiting.id}/discard`,
      scopes: ['bridge', 'operator'],
      json: { organization },
    },
    {
      method: 'GET',
      route: '/v1/deliveries/{delivery}',
      path: `/v1/deliveries/${delivery.id}?organization=acme`,
      token: deliver,
      scopes: ['bridge', 'deliver', 'operator'],
    },
    {
      ...{ method: 'POST', route: '/v1/artifacts', path: '/v1/artifacts', token: grant.token },
      ...{ key: 'sound', scopes: [] },
      json: { kind: 'memory', title: 'A bird', text: 'it sang', contentType: 'text/plain' },
    },
    {
      ...{ method: 'GET', route: '/v1/artifacts/{artifact}', token: grant.token, scopes: [] },
      path: `/v1/artifacts/${asked.draft.id}`,
    },
    {
      ...facts('POST', '/artifacts', `${place}/artifacts`),
      ...{ scopes: ['ingest'], key: 'asserted' },
      json: {
        ...{ kind: 'note', text: 'it sang there', contentType: 'text/markdown' },
        sources: [{ conversation: 'thread', seq: '1' }],
      },
    },
    {
      ...{ method: 'GET', route: '/v1/artifacts/{artifact}/lineage', token: operator },
      path: `/v1/artifacts/${asked.draft.id}/lineage?organization=acme`,
      scopes: ['ingest', 'operator'],
    },
    {
      ...{ method: 'GET', route: '/v1/lineage', token: operator },
      path: '/v1/lineage?organization=acme&conversation=thread&seq=1',
      scopes: ['ingest', 'operator'],
    },
    {
      ...{ method: 'POST', route: '/v1/artifacts/{artifact}/releases', token: grant.token },
      path: `/v1/artifacts/${asked.draft.id}/releases`,
      ...{ key: 'sound', scopes: [], json: { destination: 'hall' } },
    },
    {
      ...{ method: 'GET', route: '/v1/releases', token: asked.person, scopes: [] },
      path: '/v1/releases?organization=acme&limit=3',
    },
    ...(['approve', 'refuse'] as const).map((step) => ({
      ...{ method: 'POST', route: `/v1/releases/{release}/${step}`, token: asked.person },
      path: `/v1/releases/${asked.release}/${step}`,
      scopes: [],
      json: { organization, ...(step === 'approve' && { textSha256: asked.draft.textSha256 }) },
    })),
    ofDelivery('release', { clearance: delivery.clearance, shownReaders: ['ana', 'ben'] }),
    {
      ...ofDelivery('acknowledge', { outcome: 'delivered', message: 'm2' }),
      scopes: ['deliver', 'operator'],
    },
    {
      ...{ method: 'POST', route: '/v1/turns', path: '/v1/turns', token: bridge, key: 'sound' },
      scopes: ['bridge'],
      json: {
        organization,
        persona: 'assistant',
        destination: 'thread',
        requester: 'ana',
        trigger: { kind: 'thread', seq: '1' },
        tools: ['search'],
        threadKey: 'another',
      },
    },
    {
      method: 'GET',
      route: '/v1/turns/{turn}',
      path: `/v1/turns/${turn.id}?organization=acme`,
      token: bridge,
      scopes: ['bridge', 'operator'],
    },
    {
      method: 'GET',
      route: `${at}/personas/{persona}`,
      path: `${place}/personas/assistant`,
      token: bridge,
      scopes: ['bridge', 'operator'],
    },
    ofTurn('heartbeat', { lease, seconds: 30 }),
    ofTurn('grants', { lease, seconds: 30 }),
    ofTurn('complete', { lease, outcome: 'completed' }),
    ofTurn('stop', {}),
    ofTurn('lease', { owner: 'another', seconds: 30 }),
    {
      method: 'POST',
      route: '/v1/grants/{grant}/revoke',
      path: `/v1/grants/${grant.grantId}/revoke`,
      token: bridge,
      scopes: ['bridge', 'operator'],
      json: { organization },
    },
    operated('PUT', '', place, { status: 'active', guard: 'running', policyRevision: '2' }),
    operated('DELETE', '', '/v1/organizations/spare?confirm=spare'),
    operated('POST', '/decisions/{decision}/replay', `${place}/decisions/${decision}/replay`),
    operated('PUT', '/guard', `${place}/guard`, { guard: 'running' }),
    operated('PUT', '/stops/{kind}/{id}', `${place}/stops/persona/other`, { reason: 'none' }),
    operated('DELETE', '/stops/{kind}/{id}', `${place}/stops/persona/other`),
    facts('PUT', '/users/{user}', `${place}/users/cleo`, {
      ...{ kind: 'member', status: 'active', name: 'Cleo' },
    }),
    facts('PUT', '/personas/{persona}', `${place}/personas/other`, {
      ...{ custody: 'service', status: 'active', designated: true, approval: 'elsewhere' },
    }),
    facts('PUT', '/projects/{project}', `${place}/projects/hermes`, {
      ...{ status: 'active', admitsGuests: false, members: ['ana'] },
    }),
    facts('PUT', '/conversations/{conversation}', `${place}/conversations/new`, {
      kind: 'group',
      visibility: 'project',
      project: 'apollo',
      owner: 'ana',
      aiThread: false,
      externalReaders: false,
      archived: false,
      title: 'New',
      defaultFloor: '1',
      staged: true,
    }),
    facts('POST', '/conversations/{conversation}/open', `${place}/conversations/new/open`),
    facts('PUT', '/conversations/{conversation}/members', `${place}/conversations/new/members`, {
      members: [{ user: 'ana', history: 'all', expiresAt: '2099-01-01T00:00:00Z' }],
    }),
    facts('PUT', '/conversations/{conversation}/members/{user}', `${room}/members/cleo`, {
      history: { fromSeq: '1' },
      expiresAt: '2099-01-01T00:00:00Z',
    }),
    facts('DELETE', '/conversations/{conversation}/members/{user}', `${room}/members/cleo`),
    facts('PUT', '/conversations/{conversation}/messages/{message}', `${room}/messages/m9`, {
      kind: 'message',
      author: { user: 'ana' },
      body: 'text',
      sentAt: '2099-01-01T00:00:00Z',
      editedAt: '2099-01-01T00:00:00Z',
      deleted: false,
      replyTo: 'm1',
      embeds: [{ conversation: 'thread', message: 'm1' }],
    }),
    facts('DELETE', '/conversations/{conversation}/messages/{message}', `${room}/messages/m9`),
    facts('GET', '/conversations/{conversation}/late', `${room}/late`),
    {
      method: 'GET',
      route: '/v1/explain',
      path: '/v1/explain?organization=acme&destination=thread&source=thread&requester=ana&persona=assistant',
      token: operator,
      scopes: ['operator'],
    },
    {
      ...{ method: 'DELETE', route: '/v1/artifacts/{artifact}', token: ingest },
      path: `/v1/artifacts/${saved}?organization=acme`,
      scopes: ['ingest', 'operator'],
    },
    facts('PUT', '/sources/{source}', `${place}/sources/host`, { maxAgeSeconds: 3600 }),
    facts('POST', '/sources/{source}/confirm', `${place}/sources/host/confirm`),
    {
      method: 'POST',
      route: '/v1/facts',
      path: '/v1/facts?organization=acme',
      token: ingest,
      scopes: ['ingest', 'operator'],
      lines: '{"fact":"user","id":"dora","kind":"member"}',
    },
    facts('DELETE', '/conversations/{conversation}', `${place}/conversations/new`),
    facts('DELETE', '/users/{user}', `${place}/users/cleo`),
  ];
}

/** Routes that have no sound request here: what they need does not stand in the surroundings, or is no JSON. */
export const ELSEWHERE = [
  'POST /v1/grants/introspect',
  'POST /v1/organizations/{org}/conversations/{conversation}/late/{message}/admit',
];
