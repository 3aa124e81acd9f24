import type { Command } from 'commander';
import { z } from 'zod';
import { openInstance } from '../../instance.ts';
import { ConversationPacket, MessagePacket } from '../../packet.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type LocalCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId, typedNumber } from '../settings.ts';
import { counted, oneLine, openTerminal, type Terminal } from '../terminal.ts';
import { completeTurn, holdTurn, type HeldTurn } from '../turn.ts';
import { FIRST_CLIENT } from './init.ts';

interface AskOptions {
  readonly organization: string;
  readonly to: string;
  readonly as: string;
  readonly persona: string;
  readonly createPersona: boolean;
  readonly limit: string;
  readonly json: boolean;
}

export function addAsk(program: Command): void {
  program
    .command('ask')
    .description('search as a requester toward a conversation: what an answer there may draw on')
    .argument('<query>')
    .requiredOption('--organization <name>', 'the organization')
    .requiredOption('--to <conversation>', 'where the answer would be read')
    .requiredOption('--as <user>', 'who asks; has to read that conversation')
    .option('--persona <id>', 'who would answer', 'assistant')
    .option('--create-persona', 'make the persona if it is not there', false)
    .option('--limit <count>', 'items at most', '10')
    .option('--json', 'answer with JSON', false)
    .action(async (query: string, options: AskOptions) =>
      ask(query, options, openTerminal(options.json)),
    );
}

/** One real turn: opened, leased, granted, searched and completed through the gateway's own HTTP app. */
async function ask(query: string, options: AskOptions, terminal: Terminal): Promise<void> {
  const organization = typedId('--organization', options.organization);
  const destination = typedId('--to', options.to);
  const requester = typedId('--as', options.as);
  const persona = typedId('--persona', options.persona);
  const limit = typedNumber('--limit', options.limit, 1, 100);
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const caller = localCaller(instance.app);
    const token = await signCaller(instance.gateway.keys, config.issuer, FIRST_CLIENT, 120);
    if (options.createPersona) {
      const path = `/v1/organizations/${encodeURIComponent(organization)}/personas/${encodeURIComponent(persona)}`;
      const body = { custody: 'service', designated: true };
      const made = await caller.call(z.unknown(), { method: 'PUT', path, token, body });
      if (!made.ok) throw failureOfAsking(made, persona);
    }
    const turn = await holdTurn(caller, token, {
      organization,
      persona,
      destination,
      requester,
      trigger: { kind: 'schedule' },
    });
    if (!turn.ok) throw failureOfAsking(turn, persona);
    const found = await caller.call(MessagePacket, {
      method: 'POST',
      path: '/v1/tools/search',
      token: turn.grant.token,
      body: { query, limit },
    });
    const titles = terminal.json ? new Map<string, string>() : await titlesOf(caller, turn);
    await completeTurn(caller, token, turn);
    if (!found.ok) throw failureOfAsking(found, persona);
    const { mode, readers, sessionId, conversations } = turn.grant;
    terminal.answer({
      turn: turn.turnId,
      mode,
      readers,
      conversations,
      sessionId,
      packet: found.body,
    });
    tell(terminal, turn, found.body, titles);
  } finally {
    await instance.close();
  }
}

/** The titles of what is in scope, as the same grant may list them: the first hundred. */
async function titlesOf(caller: LocalCaller, { grant }: HeldTurn): Promise<Map<string, string>> {
  const listed = await caller.call(ConversationPacket, {
    method: 'POST',
    path: '/v1/tools/list_conversations',
    token: grant.token,
    body: { limit: 100 },
  });
  const items = listed.ok ? listed.body.items : [];
  return new Map(items.map(({ conversation, title }) => [conversation, title ?? conversation]));
}

function tell(
  terminal: Terminal,
  { grant }: HeldTurn,
  packet: z.infer<typeof MessagePacket>,
  titles: ReadonlyMap<string, string>,
): void {
  const { bold, dim } = terminal.colors;
  const { people, classes } = grant.readers;
  const readers = [
    ...(people > 0 ? [counted(people, 'person', 'people')] : []),
    ...(classes > 0 ? [counted(classes, 'open class', 'open classes')] : []),
  ].join(' and ');
  terminal.say(`mode ${bold(grant.mode)}, read by ${readers}`);
  terminal.say(
    dim(`session ${grant.sessionId}, ${counted(grant.conversations, 'conversation')} in scope`),
  );
  terminal.say();
  if (packet.items.length === 0) terminal.say('Nothing that all of them may read matches.');
  for (const item of packet.items) {
    const { history, sensitivity } = item.envelope;
    const { conversation } = history;
    const seq = 'seq' in item.source ? item.source.seq : undefined;
    const what = item.kind === 'artifact' ? item.artifact.kind : (seq ?? '');
    const name = seq === undefined ? item.source.id : `${conversation}/${seq}`;
    const author = item.author === undefined ? 'nobody known' : Object.values(item.author)[0];
    terminal.say(
      `${bold(titles.get(conversation) ?? conversation)} ${dim(`${what}  ${item.sentAt}`)}  ${author ?? ''}`,
    );
    terminal.say(`  ${oneLine(item.text)}`);
    terminal.say(
      dim(
        `  ${name} revision ${item.source.revision}, ${sensitivity}, readable from ${history.fromSeq}, decision ${packet.decision}`,
      ),
    );
  }
  if (!packet.complete) terminal.say(dim('There is more: --limit shows it.'));
}

function failureOfAsking({ problem }: Refused, persona: string): Failure {
  const mends: Partial<Record<string, string>> = {
    persona_not_designated: `There is no active persona ${persona} for this organization; --create-persona makes it.`,
    not_found:
      'Check --organization, --to and --as: the user has to be one who reads the conversation.',
    malformed_token: `The client ${FIRST_CLIENT} is not there or was revoked. Run \`earshot init\`.`,
    unlistable_audience: 'The conversation has readers outside, or members that nobody knows.',
  };
  const exitCode = problem.code === 'unavailable' ? EXIT.unavailable : EXIT.refused;
  return new Failure(exitCode, problem.code, problem.detail, mends[problem.code]);
}
