import { Option, type Command } from 'commander';
import { z } from 'zod';
import { DELIVERY_STATUSES } from '../../../sql/deliveries.ts';
import { openInstance } from '../../instance.ts';
import { DeliveryPage, DeliveryShape } from '../../shapes/delivery-shape.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type LocalCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId, typedNumber } from '../settings.ts';
import { aligned, oneLine, openTerminal, type Terminal } from '../terminal.ts';
import { FIRST_CLIENT } from './init.ts';

type Delivery = z.infer<typeof DeliveryShape>;

interface SharedOptions {
  readonly organization: string;
  readonly json: boolean;
}
interface ListOptions extends SharedOptions {
  readonly status?: string;
  readonly to?: string;
  readonly limit: string;
  readonly cursor?: string;
}
interface ApproveOptions extends SharedOptions {
  readonly sha256: string;
}
interface SettleOptions extends SharedOptions {
  readonly as: 'delivered' | 'failed';
  readonly message?: string;
  readonly reason?: string;
}

/** Adds `earshot delivery`: what is on its way out, and what an operator does about it. */
export function addDelivery(program: Command): void {
  const delivery = program
    .command('delivery')
    .description('what is on its way out, and what is held');
  const add = (line: string, description: string) =>
    delivery
      .command(line)
      .description(description)
      .requiredOption('--organization <name>', 'the organization')
      .option('--json', 'answer with JSON', false);
  add('list', 'deliveries as they stand, the newest first')
    .addOption(new Option('--status <status>', 'those alone').choices(DELIVERY_STATUSES))
    .option('--to <conversation>', 'toward this one alone')
    .option('--limit <count>', 'at most', '20')
    .option('--cursor <cursor>', 'from where the page before ended')
    .action((options: ListOptions) => list(options, openTerminal(options.json)));
  add('show <delivery>', 'one delivery, without its text').action(
    (id: string, options: SharedOptions) => show(id, options, openTerminal(options.json)),
  );
  add('approve <delivery>', 'approve one that waits for it; it is judged all the same')
    .requiredOption('--sha256 <hex>', 'the SHA-256 of the bytes that were looked at')
    .action((id: string, options: ApproveOptions) =>
      approve(id, options, openTerminal(options.json)),
    );
  add('discard <delivery>', 'end one that has not left; its bytes go').action(
    (id: string, options: SharedOptions) => discard(id, options, openTerminal(options.json)),
  );
  add('settle <delivery>', 'say what became of one that nobody reported in time')
    .addOption(
      new Option('--as <outcome>', 'what the platform shows')
        .choices(['delivered', 'failed'])
        .makeOptionMandatory(),
    )
    .option('--message <id>', 'the message that it became')
    .option('--reason <text>', 'why it failed')
    .action((id: string, options: SettleOptions) =>
      settle(id, options, openTerminal(options.json)),
    );
}

async function list(options: ListOptions, terminal: Terminal): Promise<void> {
  const query = new URLSearchParams({
    organization: typedId('--organization', options.organization),
    limit: typedNumber('--limit', options.limit, 1, 100).toString(),
  });
  if (options.status !== undefined) query.set('status', options.status);
  if (options.to !== undefined) query.set('destination', typedId('--to', options.to));
  if (options.cursor !== undefined) query.set('cursor', options.cursor);
  const page = await asOperator(async (caller, token) => {
    const path = `/v1/deliveries?${query.toString()}`;
    return caller.call(DeliveryPage, { method: 'GET', path, token });
  });
  terminal.answer(page);
  const { say, colors } = terminal;
  if (page.deliveries.length === 0) say('There are none.');
  else {
    const rows = page.deliveries.map((one) => [one.id, one.status, one.destination, why(one)]);
    const [head = '', ...lines] = aligned([['delivery', 'status', 'toward', 'why'], ...rows]);
    say(colors.dim(head));
    for (const line of lines) say(line);
  }
  if (page.cursor !== undefined) say(colors.dim(`There are more: --cursor ${page.cursor}`));
}

async function show(typed: string, options: SharedOptions, terminal: Terminal): Promise<void> {
  const { id, organization } = named(typed, options);
  const found = await asOperator((caller, token) => find(caller, token, organization, id));
  terminal.answer(found);
  tell(terminal, found);
}

async function approve(typed: string, options: ApproveOptions, terminal: Terminal): Promise<void> {
  const { id, organization } = named(typed, options);
  if (!/^[0-9a-f]{64}$/.test(options.sha256)) {
    throw new Failure(
      EXIT.usage,
      'usage',
      '--sha256: it is not a SHA-256 in hexadecimal.',
      'It names the bytes that you approve; `earshot delivery show` tells those of the delivery.',
    );
  }
  await step('approve', id, { organization, payloadSha256: options.sha256 }, terminal);
}

async function discard(typed: string, options: SharedOptions, terminal: Terminal): Promise<void> {
  const { id, organization } = named(typed, options);
  await step('discard', id, { organization }, terminal);
}

/** Takes a step whose answer is the delivery. That it is held by it is an answer, not a failure. */
async function step(what: string, id: string, body: object, terminal: Terminal): Promise<void> {
  const path = `/v1/deliveries/${id}/${what}`;
  const moved = await asOperator((caller, token) =>
    caller.call(DeliveryShape, { method: 'POST', path, token, body }),
  );
  terminal.answer(moved);
  tell(terminal, moved);
}

async function settle(typed: string, options: SettleOptions, terminal: Terminal): Promise<void> {
  const { id, organization } = named(typed, options);
  const { as: outcome, message, reason } = options;
  const misplaced = outcome === 'failed' ? message && '--message' : reason && '--reason';
  if (misplaced !== undefined && misplaced !== '') {
    throw new Failure(EXIT.usage, 'usage', `${misplaced}: it does not go with --as ${outcome}.`);
  }
  const settled = await asOperator(async (caller, token) => {
    const recorded = await caller.call(z.object({ status: z.literal('ok') }), {
      method: 'POST',
      path: `/v1/deliveries/${id}/acknowledge`,
      token,
      body: {
        organization,
        outcome,
        ...(message !== undefined && { message: typedId('--message', message) }),
        ...(reason !== undefined && { reason }),
      },
    });
    return recorded.ok ? find(caller, token, organization, id) : recorded;
  });
  terminal.answer(settled);
  tell(terminal, settled);
}

function find(caller: LocalCaller, token: string, organization: string, id: string) {
  const query = new URLSearchParams({ organization }).toString();
  return caller.call(DeliveryShape, {
    method: 'GET',
    path: `/v1/deliveries/${id}?${query}`,
    token,
  });
}

/** Asks the gateway's own HTTP app, as an operator and nothing else: not even as the endpoint that the client also is. */
async function asOperator<Body>(
  ask: (
    caller: LocalCaller,
    token: string,
  ) => Promise<{ readonly ok: true; readonly body: Body } | Refused>,
): Promise<Body> {
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const { keys } = instance.gateway;
    const token = await signCaller(keys, config.issuer, FIRST_CLIENT, 120, ['operator']);
    const answer = await ask(localCaller(instance.app), token);
    if (answer.ok) return answer.body;
    throw failureOf(answer);
  } finally {
    await instance.close();
  }
}

function named(typed: string, { organization }: SharedOptions) {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(typed)) {
    return { id: typed, organization: typedId('--organization', organization) };
  }
  throw new Failure(
    EXIT.usage,
    'usage',
    '<delivery>: it is not the id of a delivery.',
    '`earshot delivery list` shows them.',
  );
}

function tell({ say, colors }: Terminal, delivery: Delivery): void {
  const { approval, attempts, recovery, recoveryOwner, alternatives = [] } = delivery;
  say(`${colors.bold(delivery.status)}  ${delivery.id}`);
  const approved =
    approval?.by === undefined ? 'awaited' : `by the ${approval.by}, ${approval.at ?? ''}`;
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['toward', delivery.destination],
    ['sha256', delivery.payloadSha256],
    ['why', why(delivery) || undefined],
    ['what next', recovery && `${recovery}, by the ${recoveryOwner ?? 'caller'}`],
    ...alternatives.map(({ destination }) => ['or toward', destination] as const),
    ['approval', approval && approved],
    ['not before', delivery.sendAt],
    ['attempts', attempts?.toString()],
    ['edits', delivery.edits],
    ['message', delivery.message],
    ['until', delivery.expiresAt],
  ];
  const lines = rows.flatMap(([name, text]) => (text === undefined ? [] : [[name, text]]));
  for (const line of aligned(lines)) say(`  ${line}`);
}

/** What holds it, or why it failed. */
function why({ code, reason }: Delivery): string {
  return [code, reason].flatMap((text) => (text === undefined ? [] : oneLine(text))).join(': ');
}

function failureOf({ problem }: Refused): Failure {
  const mends: Partial<Record<string, string>> = {
    not_found: 'Check --organization and the id; `earshot delivery list` shows what there is.',
    malformed_token: `The client ${FIRST_CLIENT} is not there or was revoked. Run \`earshot init\`.`,
    payload_mismatch: '`earshot delivery show` tells the SHA-256 of the delivery.',
    conflict: 'It does not stand so that this may be done; `earshot delivery show` says how.',
  };
  const exitCode =
    problem.code === 'unavailable'
      ? EXIT.unavailable
      : problem.code === 'invalid_input'
        ? EXIT.usage
        : EXIT.refused;
  return new Failure(exitCode, problem.code, problem.detail, mends[problem.code]);
}
