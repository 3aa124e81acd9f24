import { afterAll, beforeAll, expect, test } from 'vitest';
import { openGateway, type EmbeddedGateway } from '../../gateway/public.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, entryMessages } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';

// The gateway inside another program: the same log, with the same checks.

let gateway: TestGateway;
let embedded: EmbeddedGateway;
let turn: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway();
  embedded = await openGateway({
    DATABASE_URL: gateway.target.gatewayUrl,
    EARSHOT_DATA_DIR: gateway.gateway.config.dataDir,
  });
  const acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
});

afterAll(async () => {
  await embedded.close();
  await gateway.close();
});

async function openLog(token = turn.grant.token, audience = turn.grant.audienceHash) {
  return embedded.log(token, turn.grant.sessionId, audience);
}

async function mustOpen(audience?: string) {
  const opened = await openLog(turn.grant.token, audience);
  if (!opened.ok) throw new Error(opened.code);
  return opened.log;
}

test('a log is the one that the routes give', async () => {
  const log = await mustOpen();
  const appended = await log.append('key', [
    { role: 'agent', participant: 'assistant', blocks: [{ type: 'text', text: 'embedded' }] },
  ]);
  await logOf(gateway, turn).append(entry(text('over HTTP')));
  expect(appended).toMatchObject({ ok: true });
  const compiled = await log.compile();
  expect(compiled.ok && entryMessages(compiled.result).flatMap(({ content }) => content)).toEqual([
    text('embedded'),
    text('over HTTP'),
  ]);
  const page = await log.entries({ limit: 1 });
  if (!page.ok || page.cursor === undefined) throw new Error('no page');
  const rest = await log.entries({ limit: 9, after: page.cursor });
  expect(rest.ok && rest.result.entries.flatMap(({ blocks }) => blocks)).toEqual([
    text('over HTTP'),
  ]);
  const response = await embedded.app.request('/v1');
  expect(response.status).toBe(200);
});

test('a token that does not verify opens no log', async () => {
  expect(await openLog('none')).toMatchObject({ ok: false, code: 'malformed_token' });
});

test('another audience, and none, is refused', async () => {
  expect(await (await mustOpen('0'.repeat(64))).compile()).toMatchObject({
    code: 'session_not_yours',
  });
  for (const none of ['', null as unknown as string])
    expect(await (await mustOpen(none)).compile()).toMatchObject({ code: 'invalid_input' });
});

test('inputs of callers without types are refused, saying where', async () => {
  const log = await mustOpen();
  const bad = [
    { role: 'agent', participant: 'a', blocks: [{ type: 'tool_call', audience: ['x'] }] },
  ];
  const refused = await log.append('k', bad as never);
  expect(refused).toMatchObject({ code: 'invalid_input' });
  expect(!refused.ok && refused.detail).toContain('entries.0.blocks.0');
  expect(await log.compile({ reader: 'ana' } as never)).toMatchObject({ code: 'invalid_input' });
  expect(await log.entries({ limit: 0 })).toMatchObject({ code: 'invalid_input' });
  expect(await log.openNamespace({ reader: '' })).toMatchObject({ code: 'invalid_input' });
});

test('a bad setting is thrown by name', async () => {
  await expect(openGateway({ EARSHOT_PORT: 'x' })).rejects.toThrow(/EARSHOT_PORT/);
});
