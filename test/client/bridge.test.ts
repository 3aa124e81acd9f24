import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { CLIENT_SCOPES } from '../../sql/clients.ts';
import { command, startCommand } from '../cli/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { read, type TestGateway } from '../support/gateway.ts';
import { testOrganization, type TestOrganization } from '../support/organization.ts';
import { startGatewayProxy, type GatewayProxy } from './gateway-proxy.ts';

// The example bridge as a process of its own, against `earshot serve`.

const BRIDGE = fileURLToPath(new URL('../../fixtures/bridge/bridge.ts', import.meta.url));
const TSCONFIG = fileURLToPath(new URL('../../fixtures/bridge/tsconfig.json', import.meta.url));
const RELEASE = 'POST /v1/deliveries/{id}/release';

let folder: string;
let database: TestDatabase;
let served: ReturnType<typeof startCommand>;
let proxy: GatewayProxy;
let token: string;
let acme: TestOrganization;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-bridge-'));
  database = await createTestDatabase();
  const env = { DATABASE_URL: database.gatewayUrl, DATABASE_ADMIN_URL: database.adminUrl };
  const made = await command(['init', '--json'], { cwd: folder, env });
  expect(made).toMatchObject({ code: 0 });
  ({ token } = JSON.parse(made.out) as { token: string });
  served = startCommand(['serve', '--port', '0'], { cwd: folder, env });
  const [line] = (await once(createInterface(served.stdout), 'line')) as [string];
  proxy = await startGatewayProxy((JSON.parse(line) as { url: string }).url);
}, 120_000);

afterAll(async () => {
  served.kill('SIGTERM');
  await once(served, 'exit');
  await proxy.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

beforeEach(async () => {
  proxy.before = () => Promise.resolve();
  const tokens = Object.fromEntries(
    CLIENT_SCOPES.map((scope) => [scope, token]),
  ) as TestGateway['tokens'];
  acme = await testOrganization({ send, tokens }, `acme-${String(Date.now())}`);
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('open', ['ana', 'ben', 'cleo']);
  await acme.say('shared', 'ben', 'the canary lives in the cellar');
  await acme.say('open', 'ben', 'the canary sings in the attic');
  await acme.say('thread', 'ana', 'canary');
  proxy.answers.length = 0;
});

async function send(
  method: string,
  path: string,
  {
    token: bearer,
    json,
    body,
    headers,
  }: Parameters<Parameters<typeof testOrganization>[0]['send']>[2] = {},
) {
  const text = json === undefined ? body : JSON.stringify(json);
  return read(
    await fetch(`${proxy.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${bearer ?? ''}`,
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(text !== undefined && { body: text }),
    }),
  );
}

interface Bridge {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  readonly lines: Interface;
  readonly told: Record<string, unknown>[];
  /** Gives it a message and waits until it is through with it. */
  hears(seq: string, text: string): Promise<Record<string, unknown>>;
  leaves(): Promise<void>;
}

function startBridge(journal = 'deliveries.ndjson'): Bridge {
  const args = ['--organization', acme.name, '--journal', join(folder, journal)];
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), BRIDGE, ...args], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      TSX_TSCONFIG_PATH: TSCONFIG,
      GATEWAY_URL: proxy.url,
      BRIDGE_TOKEN: token,
      DELIVER_TOKEN: token,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout);
  const told: Record<string, unknown>[] = [];
  lines.on('line', (line) => told.push(JSON.parse(line) as Record<string, unknown>));
  return {
    child,
    lines,
    told,
    async hears(seq, text) {
      const message = { conversation: 'thread', seq, author: 'ana', text };
      child.stdin.write(`${JSON.stringify(message)}\n`);
      for (;;) {
        await once(lines, 'line');
        const last = told.at(-1) ?? {};
        if (last.event === 'done' || last.event === 'not_answered') return last;
      }
    },
    async leaves() {
      child.stdin.end();
      expect(await once(child, 'exit')).toEqual([0, null]);
    },
  };
}

/** Lets cleo join just before the first request of a route. */
function joinsBefore(route: string): void {
  let joined = false;
  proxy.before = async (asked) => {
    if (asked !== route || joined) return;
    joined = true;
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
  };
}

const textsSaid = ({ told }: Bridge) =>
  told.filter(({ event }) => event === 'said').map(({ text }) => String(text));

test('an answer made of what all may read is said once, and is on record as delivered', async () => {
  const bridge = startBridge();
  expect(await bridge.hears('1', 'canary')).toEqual({ event: 'done', seq: '1', turns: 1 });
  await bridge.leaves();

  const [said, ...more] = textsSaid(bridge);
  expect(said).toContain('the cellar');
  expect(said).toContain('the attic');
  expect(more).toEqual([]);
  const id = String(bridge.told[0]?.message).replace('answer-', '');
  expect(await acme.delivery(id)).toMatchObject({ status: 'delivered' });
});

test.each([RELEASE, 'POST /v1/deliveries'])(
  'when somebody joins before %s, nothing of the first answer is said, and the next is for them too',
  async (route) => {
    joinsBefore(route);
    const bridge = startBridge();
    expect(await bridge.hears('1', 'canary')).toEqual({ event: 'done', seq: '1', turns: 2 });
    await bridge.leaves();

    expect(textsSaid(bridge)).toEqual(['“the canary sings in the attic” (open 1)']);
    expect(JSON.stringify(bridge.told)).not.toContain('cellar');
    // The first answer was there: the first search saw it, and no release handed it out.
    const found = proxy.answers.filter(({ route }) => route === 'POST /v1/tools/search');
    expect(found.map(({ body }) => body.includes('cellar'))).toEqual([true, false]);
    const released = proxy.answers.filter(
      ({ route, status }) => route === RELEASE && status === 200,
    );
    expect(released).toHaveLength(1);
    expect(released[0]?.body).not.toContain('cellar');
  },
);

test('a message that was answered is not answered again by a bridge that is started anew', async () => {
  const first = startBridge();
  await first.hears('1', 'canary');
  await first.leaves();
  const second = startBridge();
  expect(await second.hears('1', 'canary')).toMatchObject({ code: 'turn_not_running', turns: 1 });
  await second.leaves();
  expect(textsSaid(second)).toEqual([]);
});

test('what a crash left open is looked at first, and no text of it was kept', async () => {
  const first = startBridge('crashed.ndjson');
  proxy.before = (route) => {
    if (route === RELEASE) first.child.kill('SIGKILL');
    return Promise.resolve();
  };
  first.child.stdin.write(
    `${JSON.stringify({ conversation: 'thread', seq: '1', author: 'ana', text: 'canary' })}\n`,
  );
  await once(first.child, 'exit');
  expect(textsSaid(first)).toEqual([]);
  await expectEventually(() => proxy.answers.some(({ route }) => route === RELEASE));

  const journal = join(folder, 'crashed.ndjson');
  expect(await readFile(journal, 'utf8')).toMatch(/"state":"releasing"/);
  expect(await readFile(journal, 'utf8')).not.toContain('canary');
  // A line that the crash cut off.
  await writeFile(journal, '\n{"deliveryId":"3c5', { flag: 'a' });
  const second = startBridge('crashed.ndjson');
  await once(second.lines, 'line');
  await second.leaves();
  expect(second.told).toMatchObject([{ event: 'reconciled', outcome: 'failed' }]);
  expect(await readFile(journal, 'utf8')).toMatch(/^\{.*"state":"settled"\}$/m);
  // The cut line spoiled no other: it is settled for the next one as well.
  const third = startBridge('crashed.ndjson');
  await third.leaves();
  expect(third.told).toEqual([]);
});

test('a bridge that is asked to leave says nothing more and ends in order', async () => {
  const bridge = startBridge();
  await bridge.hears('1', 'canary');
  bridge.child.kill('SIGTERM');
  expect(await once(bridge.child, 'exit')).toEqual([0, null]);
  expect(bridge.told.map(({ event }) => event)).toEqual(['said', 'done']);
});

/** Waits for what another process is about to do. */
async function expectEventually(isSo: () => boolean): Promise<void> {
  await expect.poll(isSo, { timeout: 20_000 }).toBe(true);
}
