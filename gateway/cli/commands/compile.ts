import { Option, type Command } from 'commander';
import { z } from 'zod';
import {
  CompiledLog,
  LEAST_ENTRY_TOKENS,
  type CompileOptions,
  type OverBudget,
  type Provenance,
} from '../../../sessions/compile/compile-shape.ts';
import { Block } from '../../../sessions/entry-shape.ts';
import { ESTIMATORS, type EstimatorName } from '../../../sessions/compile/token-estimator.ts';
import { openInstance } from '../../instance.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId, typedNumber } from '../settings.ts';
import { counted, openTerminal, type Terminal } from '../terminal.ts';
import { completeTurn, holdTurn, type HeldTurn, type TurnRequest } from '../turn.ts';
import { FIRST_CLIENT } from './init.ts';

interface CompileCommandOptions {
  readonly organization: string;
  readonly to: string;
  readonly as: string;
  readonly persona: string;
  readonly thread?: string;
  readonly namespace?: string;
  readonly budget?: string;
  readonly headTokens?: string;
  readonly recentTokens?: string;
  readonly maxEntryTokens?: string;
  readonly pruneToolResults?: string;
  readonly pin: readonly string[];
  readonly model?: string;
  readonly estimator?: EstimatorName;
  readonly json: boolean;
}

const Preview = CompiledLog.extend({ decision: z.string() });
type Preview = z.infer<typeof Preview>;

/** Adds `earshot compile`: what the model of a session would be sent, and what each piece of it costs. */
export function addCompile(program: Command): void {
  program
    .command('compile')
    .description(
      'show what a session would send its model, and what each piece costs; sends nothing',
    )
    .requiredOption('--organization <name>', 'the organization')
    .requiredOption('--to <conversation>', 'where the answer would be read')
    .requiredOption('--as <user>', 'who asks; has to read that conversation')
    .option('--persona <id>', 'who would answer', 'assistant')
    .option('--thread <key>', 'the thread key, where it is not the conversation')
    .option('--namespace <handle>', "an agent's place in the log, by its handle")
    .option('--budget <tokens>', 'what the request may have')
    .option('--head-tokens <tokens>', 'the first entries go raw, as many as keep to this')
    .option('--recent-tokens <tokens>', 'the newest entries go raw, as many as keep to this')
    .option('--max-entry-tokens <tokens>', 'an entry with more is cut')
    .option('--prune-tool-results <count>', 'so many of the newest tool results keep their content')
    .option(
      '--pin <entry>',
      'an entry that goes raw, by its id as --json shows it; may be given again',
      (id: string, ids: string[]) => [...ids, id],
      [],
    )
    .option('--model <name>', 'the model that is asked: its calibration is applied')
    .addOption(new Option('--estimator <name>', 'how tokens are counted').choices(ESTIMATORS))
    .option('--json', 'answer with JSON', false)
    .action(async (options: CompileCommandOptions) => {
      process.exitCode = await compile(options, openTerminal(options.json));
    });
}

/** One real turn: opened, leased, granted, previewed and completed through the gateway's own HTTP app. */
async function compile(options: CompileCommandOptions, terminal: Terminal): Promise<number> {
  const request: TurnRequest = {
    organization: typedId('--organization', options.organization),
    persona: typedId('--persona', options.persona),
    destination: typedId('--to', options.to),
    requester: typedId('--as', options.as),
    trigger: { kind: 'schedule' },
    ...(options.thread !== undefined && { threadKey: typedId('--thread', options.thread) }),
  };
  const asked = askedOf(options);
  const namespace =
    options.namespace === undefined ? undefined : typedUuid('--namespace', options.namespace);
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const caller = localCaller(instance.app);
    const token = await signCaller(instance.gateway.keys, config.issuer, FIRST_CLIENT, 120);
    const turn = await holdTurn(caller, token, request);
    if (!turn.ok) throw failureOfTurn(turn, request.persona);
    const { token: grant, audienceHash: audience, sessionId } = turn.grant;
    const query = new URLSearchParams({ audience, ...(namespace !== undefined && { namespace }) });
    const path = `/v1/sessions/${sessionId}/preview?${query.toString()}`;
    const preview = (body: CompileOptions) =>
      caller.call(Preview, { method: 'POST', path, token: grant, body });

    const previewed = await preview(asked);
    const over = previewed.ok ? undefined : previewed.problem.over;
    // What is too large is shown too: a person looks for what makes it so.
    const { budget: _, ...unbounded } = asked;
    const shown = over === undefined || terminal.json ? previewed : await preview(unbounded);
    await completeTurn(caller, token, turn);
    if (shown.ok) {
      const { mode, readers } = turn.grant;
      terminal.answer({ turn: turn.turnId, mode, readers, sessionId, ...shown.body });
      tell(terminal, turn, shown.body, asked.budget);
    }
    if (previewed.ok) return EXIT.ok;
    if (over === undefined) throw failureOfPreview(previewed);
    const { code } = previewed.problem;
    const failure = new Failure(EXIT.refused, code, sizeOf(over), mendOf(over));
    if (!terminal.json) throw failure;
    terminal.answer({ error: { code, message: failure.message, mend: failure.mend, over } });
    return failure.exitCode;
  } finally {
    await instance.close();
  }
}

const MOST_TOKENS = 100_000_000;

/** How the log is compiled, as it was typed. */
function askedOf(options: CompileCommandOptions): CompileOptions {
  const number = (option: string, text: string | undefined, min = 0, max = MOST_TOKENS) =>
    text === undefined ? undefined : typedNumber(option, text, min, max);
  const { model, estimator, pin } = options;
  return {
    budget: number('--budget', options.budget),
    headTokens: number('--head-tokens', options.headTokens),
    recentTokens: number('--recent-tokens', options.recentTokens),
    maxEntryTokens: number('--max-entry-tokens', options.maxEntryTokens, LEAST_ENTRY_TOKENS),
    pruneToolResults: number('--prune-tool-results', options.pruneToolResults, 0, 1_000_000),
    model: model === undefined ? undefined : typedId('--model', model),
    estimator,
    ...(pin.length > 0 && { pins: pin.map((id) => typedUuid('--pin', id)) }),
  };
}

function typedUuid(option: string, text: string): string {
  if (z.uuid().safeParse(text).success) return text;
  throw new Failure(EXIT.usage, 'usage', `${option}: it has to be a UUID.`);
}

function tell(
  terminal: Terminal,
  { grant }: HeldTurn,
  preview: Preview,
  budget: number | undefined,
): void {
  const { bold, dim, red } = terminal.colors;
  terminal.say(`session ${bold(grant.sessionId)}, mode ${grant.mode}`);
  terminal.say(dim(`decision ${preview.decision}`));
  terminal.say();
  if (preview.messages.length === 0) {
    terminal.say('Nothing would be sent: the session shows no entry here.');
    return;
  }
  const [head = '', ...rows] = table(preview);
  terminal.say(dim(head));
  for (const row of rows) terminal.say(row);
  terminal.say();

  const { tokens, dearerReplaced, shared, ...counts } = preview.stats;
  const { estimator, total, ...kinds } = tokens;
  const line = (name: string, text: string) => {
    terminal.say(`  ${name.padEnd(13)}${text}`);
  };
  const whole = `${counted(total, 'token')} in ${counted(preview.messages.length, 'message')}`;
  const fits = budget === undefined || total <= budget;
  const bound = budget === undefined ? '' : `, of ${grouped(budget)} that it may have`;
  line('total', fits ? bold(whole) + bound : red(bold(whole) + bound));
  for (const [kind, most] of Object.entries(kinds)) {
    if (most === 0) continue;
    line(`  ${kind}`, `${counted(most, 'token')}${detailOf(kind, counts)}`);
  }
  line('estimator', estimator);
  line(
    'dearer',
    `${counted(dearerReplaced, 'summary', 'summaries')} left out, for costing more than what goes raw instead`,
  );
  line(
    'shared',
    `${grouped(shared.messages)} of ${counted(preview.messages.length, 'message')} with the request sent last,` +
      ` ${grouped(shared.bytes)} of ${counted(shared.ofBytes, 'byte')}`,
  );
}

function detailOf(
  kind: string,
  counts: Omit<Preview['stats'], 'tokens' | 'dearerReplaced' | 'shared'>,
): string {
  const { entries, blocks, summaries, injections, placed } = counts;
  switch (kind) {
    case 'entries':
      return ` in ${counted(entries, 'entry', 'entries')} of ${counted(blocks, 'block')}`;
    case 'summaries':
      return ` in ${counted(summaries, 'summary', 'summaries')}`;
    case 'injections':
      return ` in ${counted(injections, 'injection')}`;
    case 'placed':
      return ` in ${counted(placed, 'unit')}`;
    default:
      return '';
  }
}

const BAR = 8;

/** A line for each message, below one that names the columns. */
function table({ messages, provenance, stats }: Preview): string[] {
  const dearest = Math.max(1, ...provenance.map(({ tokens }) => tokens));
  const rows = messages.map(({ role, participant, content }, index) => {
    const from = provenance[index] ?? { kind: 'marker', tokens: 0 };
    const share = (100 * from.tokens) / stats.tokens.total;
    return [
      (index + 1).toString(),
      from.level === undefined ? from.kind : `${from.kind} L${from.level.toString()}`,
      shortened(`${role}/${participant}`, 24),
      grouped(from.tokens),
      share > 0 && share < 1 ? '<1%' : `${Math.round(share).toString()}%`,
      '█'.repeat(Math.ceil((BAR * from.tokens) / dearest)),
      marksOf(from).join(', '),
      shortened(content.map(blockText).join(' '), 50),
    ];
  });
  const named = [['#', 'kind', 'who', 'tokens', 'share', '', 'marks', 'text'], ...rows];
  const toTheRight = new Set([0, 3, 4]);
  const widths = named[0]?.map((_, column) =>
    Math.max(...named.map((row) => Array.from(row[column] ?? '').length)),
  );
  return named.map((row) => {
    const cells = row.map((text, column) => {
      const room = ' '.repeat((widths?.[column] ?? 0) - Array.from(text).length);
      return toTheRight.has(column) ? room + text : text + room;
    });
    return `  ${cells.join('  ')}`.trimEnd();
  });
}

function marksOf({ entries, pinned, cut, pruned }: Provenance): string[] {
  return [
    ...(entries === undefined ? [] : [counted(entries, 'entry', 'entries')]),
    ...(pinned === true ? ['pinned'] : []),
    ...(cut === true ? ['cut'] : []),
    ...(pruned === true ? ['pruned'] : []),
  ];
}

/** A block in words. */
function blockText(viewed: Preview['messages'][number]['content'][number]): string {
  const parsed = Block.safeParse(viewed);
  if (!parsed.success) return `[${viewed.type}]`;
  const block = parsed.data;
  switch (block.type) {
    case 'text':
      return block.text;
    case 'thinking':
      return `[thinking] ${block.text}`;
    case 'image':
      return `[${block.mediaType}]`;
    case 'tool_call':
      return `[call] ${block.name} ${JSON.stringify(block.arguments)}`;
    case 'tool_result': {
      const parts = block.content?.map((part) =>
        part.type === 'text' ? part.text : `[${part.mediaType}]`,
      );
      const value = block.value === undefined ? [] : [JSON.stringify(block.value)];
      return [block.isError === true ? '[error]' : '[result]', ...(parts ?? []), ...value].join(
        ' ',
      );
    }
    case 'raw':
      return `[the form of ${block.provider}]`;
  }
}

/**
 * A text as part of a line of a terminal, cut if it is longer: control characters would be obeyed by it, and those that turn
 * the direction of writing would mix up the columns.
 */
function shortened(text: string, most: number): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\s]+/gu, ' ').trim();
  const characters = Array.from(plain);
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : plain;
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

function sizeOf({ tokens, budget }: OverBudget): string {
  return (
    `The request has ${counted(tokens, 'token')}, and its budget is ${grouped(budget)}: ` +
    `${grouped(tokens - budget)} too many.`
  );
}

/** What would make a request smaller, one way a line. */
function mendOf({ steps }: OverBudget): string {
  if (steps.length === 0) return 'Nothing in it can be left out: raise --budget.';
  const lines = steps.map((step) => {
    const enough = step.clears ? ', which can be enough' : '';
    return `  - ${wordsOf(step)}: up to ${counted(step.frees, 'token')}${enough}`;
  });
  return ['Tokens are freed by', ...lines].join('\n');
}

function wordsOf({ step, from, to, of, needs = [] }: OverBudget['steps'][number]): string {
  const also = needs
    .map((one) => (one === 'pins' ? ' and no pins' : ` and ${OPTIONS[one]} 0`))
    .join('');
  switch (step) {
    case 'summarize':
      return of === undefined
        ? `a summary of the entries from ${from ?? ''} to ${to ?? ''}${also}`
        : `one summary of the summaries ${of.join(', ')}${also}`;
    case 'pins':
      return `no pins, neither the namespace's nor --pin${also}`;
    case 'recentTokens':
    case 'headTokens':
    case 'pruneToolResults':
      return `${OPTIONS[step]} 0${also}`;
    case 'maxEntryTokens':
      return `--max-entry-tokens ${LEAST_ENTRY_TOKENS.toString()}`;
    case 'injections':
      return 'no injected context';
  }
}

const OPTIONS = {
  recentTokens: '--recent-tokens',
  headTokens: '--head-tokens',
  pruneToolResults: '--prune-tool-results',
} as const;

function failureOfTurn({ problem }: Refused, persona: string): Failure {
  const mends: Partial<Record<string, string>> = {
    persona_not_designated: `There is no active persona ${persona} for this organization.`,
    not_found:
      'Check --organization, --to and --as: the user has to be one who reads the conversation.',
    malformed_token: `The client ${FIRST_CLIENT} is not there or was revoked. Run \`earshot init\`.`,
    unlistable_audience: 'The conversation has readers outside, or members that nobody knows.',
  };
  return failureOf(problem, mends[problem.code]);
}

function failureOfPreview({ problem }: Refused): Failure {
  const mend = 'Check --pin and --namespace: both have to be of this session.';
  return failureOf(problem, problem.code === 'not_found' ? mend : undefined);
}

function failureOf({ code, detail }: Refused['problem'], mend: string | undefined): Failure {
  const exitCodes: Partial<Record<string, Failure['exitCode']>> = {
    unavailable: EXIT.unavailable,
    invalid_input: EXIT.usage,
  };
  return new Failure(exitCodes[code] ?? EXIT.refused, code, detail, mend);
}
