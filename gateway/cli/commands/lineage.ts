import type { Command } from 'commander';
import type { z } from 'zod';
import { openInstance } from '../../instance.ts';
import { LineageShape } from '../../shapes/lineage-shape.ts';
import { Uuid } from '../../shapes/scalar-shape.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId } from '../settings.ts';
import { aligned, openTerminal, type Terminal } from '../terminal.ts';
import { FIRST_CLIENT } from './init.ts';

type Lineage = z.infer<typeof LineageShape>;

/** Adds `earshot lineage`: what an artifact or a message was made from, what was made from it, and where that went. */
export function addLineage(program: Command): void {
  program
    .command('lineage')
    .description('say what a text was made from, what was made from it, and where that went')
    .argument('<organization>', 'the organization')
    .argument('<source>', 'an artifact, by its id; or a conversation, with the number of a message')
    .argument('[seq]', 'the message of that conversation')
    .option('--json', 'answer with JSON', false)
    .action(
      async (
        organization: string,
        source: string,
        seq: string | undefined,
        options: { readonly json: boolean },
      ) => lineage(organization, source, seq, openTerminal(options.json)),
    );
}

/** Asks the gateway's own HTTP app. */
async function lineage(
  organization: string,
  source: string,
  seq: string | undefined,
  terminal: Terminal,
): Promise<void> {
  const path = pathOf(typedId('organization', organization), source, seq);
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const token = await signCaller(instance.gateway.keys, config.issuer, FIRST_CLIENT, 120);
    const told = await localCaller(instance.app).call(LineageShape, { method: 'GET', path, token });
    if (!told.ok) throw failureOfTelling(told);
    terminal.answer(told.body);
    tell(terminal, told.body);
  } finally {
    await instance.close();
  }
}

function pathOf(organization: string, source: string, seq: string | undefined): string {
  const query = new URLSearchParams({ organization });
  if (seq !== undefined) {
    query.set('conversation', typedId('source', source));
    query.set('seq', seq);
    return `/v1/lineage?${query.toString()}`;
  }
  if (!Uuid.safeParse(source).success) {
    const message =
      'source: it is not the id of an artifact, and names no message of a conversation.';
    const mend = 'Name an artifact by its id, or a message by its conversation and its number.';
    throw new Failure(EXIT.usage, 'usage', message, mend);
  }
  return `/v1/artifacts/${source}/lineage?${query.toString()}`;
}

function tell({ say, colors }: Terminal, told: Lineage): void {
  const { bold, dim, red } = colors;
  const { artifact, message, stale, sources, derived, deliveries } = told;
  const marked = stale === true ? `, ${red('stale')}` : '';
  if (artifact !== undefined) {
    say(`${bold(`${artifact.kind} ${artifact.id}`)}  ${artifact.state}${marked}`);
    const by = artifact.asserted ? 'asserted' : `saved by ${artifact.persona ?? 'nobody known'}`;
    say(dim(`${by} at ${artifact.createdAt} in ${artifact.conversation}`));
  }
  if (message !== undefined) {
    say(`${bold(`${message.conversation}/${message.seq}`)}  ${message.state}`);
    const from = message.delivery === undefined ? '' : `, came out of delivery ${message.delivery}`;
    say(dim(`message ${message.id}, revision ${message.revision}${from}`));
  }
  say(dim(`decision ${told.decision}`));
  const section = (title: string, rows: readonly string[][]) => {
    if (rows.length === 0) return;
    say();
    say(title);
    for (const line of aligned(rows)) say(`  ${line}`);
  };
  section('Made from:', sources.map(sourceRow));
  section(
    'Made from it:',
    derived.map((one) => [
      `${one.kind} ${one.artifact}`,
      one.conversation,
      HOW[one.how],
      [one.state, ...(one.stale ? ['stale'] : []), ...(one.asserted ? ['asserted'] : [])].join(
        ', ',
      ),
      one.at,
    ]),
  );
  section(
    'Went to:',
    deliveries.map((one) => [
      one.destination,
      one.message === undefined ? '' : `message ${one.message}`,
      HOW[one.how],
      one.status,
      one.at,
      `delivery ${one.id}`,
    ]),
  );
  if (derived.length + deliveries.length === 0) {
    say();
    say('Nothing was made from it.');
  }
  if (!told.complete) say(dim('There is more than is told here.'));
}

const HOW = { direct: 'was read', inherited: 'is behind it', stretch: 'was in reach' } as const;

function sourceRow(source: Lineage['sources'][number]): string[] {
  const { type, conversation, seq, fromSeq, artifact, revision, state, stale, inherited } = source;
  const name = {
    message: `${conversation}/${seq ?? ''}`,
    stretch: `${conversation} from ${fromSeq ?? ''}`,
    artifact: `artifact ${artifact ?? ''}`,
  }[type];
  return [
    name,
    type === 'message' && revision !== undefined ? `revision ${revision}` : '',
    [state, ...(stale === true ? ['stale'] : [])].join(', '),
    inherited ? 'inherited' : '',
  ];
}

function failureOfTelling({ problem }: Refused): Failure {
  const mends: Partial<Record<string, string>> = {
    not_found: 'Check the organization, and the artifact or the conversation and the number.',
    malformed_token: `The client ${FIRST_CLIENT} is not there or was revoked. Run \`earshot init\`.`,
  };
  const exitCode =
    problem.code === 'unavailable'
      ? EXIT.unavailable
      : problem.code === 'invalid_input'
        ? EXIT.usage
        : EXIT.refused;
  return new Failure(exitCode, problem.code, problem.detail, mends[problem.code]);
}
