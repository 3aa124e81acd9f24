import { Option, type Command } from 'commander';
import type { z } from 'zod';
import { openInstance } from '../../instance.ts';
import { ExplanationShape } from '../../shapes/explain-shape.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId } from '../settings.ts';
import { aligned, counted, openTerminal, type Terminal } from '../terminal.ts';
import { FIRST_CLIENT } from './init.ts';

interface ExplainOptions {
  readonly organization: string;
  readonly to: string;
  readonly as: string;
  readonly seq?: string;
  readonly persona: string;
  readonly trigger: string;
  readonly triggerSeq?: string;
  readonly asViewer: boolean;
  readonly json: boolean;
}

type Explanation = z.infer<typeof ExplanationShape>;

/** Adds `earshot explain`: why a conversation, or one message of it, is in or out for a turn. */
export function addExplain(program: Command): void {
  program
    .command('explain')
    .description('say why a source is in or out for a turn toward a conversation')
    .argument('<source>', 'the conversation that an answer would draw on')
    .requiredOption('--organization <name>', 'the organization')
    .requiredOption('--to <conversation>', 'where the answer would be read')
    .requiredOption('--as <user>', 'who asks')
    .option('--seq <number>', 'one message of the source')
    .option('--persona <id>', 'who would answer', 'assistant')
    .addOption(
      new Option('--trigger <kind>', 'what starts the turn')
        .choices(['thread', 'mention', 'schedule', 'disclosure'])
        .default('schedule'),
    )
    .option('--trigger-seq <number>', 'the message of a thread or mention that starts the turn')
    .option('--as-viewer', 'say only what the one who asks would be told', false)
    .option('--json', 'answer with JSON', false)
    .action(async (source: string, options: ExplainOptions) =>
      explain(source, options, openTerminal(options.json)),
    );
}

/** Asks the gateway's own HTTP app. A source that is out is an answer, not a failure. */
async function explain(source: string, options: ExplainOptions, terminal: Terminal): Promise<void> {
  const query = new URLSearchParams({
    organization: typedId('--organization', options.organization),
    destination: typedId('--to', options.to),
    source: typedId('source', source),
    requester: typedId('--as', options.as),
    persona: typedId('--persona', options.persona),
    trigger: options.trigger,
  });
  if (options.seq !== undefined) query.set('seq', options.seq);
  if (options.triggerSeq !== undefined) query.set('triggerSeq', options.triggerSeq);
  if (options.asViewer) query.set('viewer', options.as);
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const token = await signCaller(instance.gateway.keys, config.issuer, FIRST_CLIENT, 120);
    const told = await localCaller(instance.app).call(ExplanationShape, {
      method: 'GET',
      path: `/v1/explain?${query.toString()}`,
      token,
    });
    if (!told.ok) throw failureOfExplaining(told);
    terminal.answer(told.body);
    tell(terminal, told.body);
  } finally {
    await instance.close();
  }
}

function tell({ say, colors }: Terminal, explanation: Explanation): void {
  const { bold, dim, green, red } = colors;
  const { source, seq, destination, verdict, mode, projectBound, grid } = explanation;
  const named = seq === undefined ? source : `${source}/${seq}`;
  const mark = verdict === 'in' ? green(bold('in')) : red(bold('out'));
  say(`${mark}  ${bold(named)} for a turn toward ${bold(destination)}`);
  const bound = projectBound === undefined ? '' : `, bound to the project ${projectBound}`;
  const turn = mode === undefined ? 'no turn stands' : `mode ${mode}${bound}`;
  say(dim(`${turn}, decision ${explanation.decision}`));
  if (grid.readers.length > 0) {
    say();
    for (const line of table(explanation)) say(line);
  }
  const why = explanation.reasons.map((reason) => sentence(reason, explanation));
  if (why.length > 0) {
    say();
    say('Why:');
    for (const line of why) say(`  - ${line}`);
  }
  const changes = explanation.changes.map((change) => wish(change, explanation));
  if (changes.length > 0) {
    say();
    say('It would be in:');
    for (const line of changes) say(`  - ${line}`);
  }
}

/** The grid: a line for each reader, and the intersection below. */
function table(explanation: Explanation): string[] {
  const { readers, floor } = explanation.grid;
  const rows = [
    ['reader', 'at the destination', 'at the source'],
    ...readers.map((reader, place) => [
      `${nameAt(explanation, place)}${reader.guest === true ? ' (guest)' : ''}`,
      `from ${reader.destinationFloor}`,
      reader.floor === null ? 'does not read it' : `from ${reader.floor}`,
    ]),
    ['all of them', '', floor === null ? 'do not' : `from ${floor}`],
  ];
  return aligned(rows).map((line) => `  ${line}`);
}

function sentence(reason: Explanation['reasons'][number], explanation: Explanation): string {
  switch (reason.kind) {
    case 'turn_refused':
      return `no turn stands there: ${reason.code}`;
    case 'conversation_deleted':
      return 'the conversation is deleted';
    case 'conversation_staged':
      return 'the conversation is being imported and readable by nobody';
    case 'mode':
      return `the mode ${reason.mode} draws on the destination alone`;
    case 'project_bound':
      return `the turn is bound to the project ${reason.project}, and the source is not of it`;
    case 'not_read':
      return `not read by ${names(explanation, reason.readers)}`;
    case 'below_floor':
      return `below the floor of ${names(explanation, reason.readers)}`;
    case 'lineage':
      return `made from something that is not readable by ${names(explanation, reason.readers)}`;
    case 'message_deleted':
      return 'the message is deleted';
    case 'unaccounted_answer':
      return 'an assistant wrote it, no delivery accounts for it, and it is not read elsewhere';
    case 'edited_answer':
      return 'a delivered answer that was edited since, and is not read elsewhere';
  }
}

function wish(change: Explanation['changes'][number], explanation: Explanation): string {
  const who = names(explanation, change.readers);
  if (change.kind === 'without') return `without ${who} in the destination`;
  return change.atMost === undefined
    ? `if ${who} read the source`
    : `if ${who} read the source from ${change.atMost} or further back`;
}

/** A few readers by name, the rest as a number. */
function names(explanation: Explanation, places: readonly number[]): string {
  const shown = places.slice(0, 5).map((place) => nameAt(explanation, place));
  const rest = places.length - shown.length;
  return [...shown, ...(rest > 0 ? [counted(rest, 'more reader')] : [])].join(', ');
}

/** One who may not be named is a number. */
function nameAt({ grid }: Explanation, place: number): string {
  return grid.readers[place]?.reader ?? `reader ${place}`;
}

function failureOfExplaining({ problem }: Refused): Failure {
  const mends: Partial<Record<string, string>> = {
    not_found:
      'Check --organization, --to, the source and --seq. With --as-viewer, the one who asks has to read all of it.',
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
