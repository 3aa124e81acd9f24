import type { Command } from 'commander';
import type { z } from 'zod';
import { openInstance } from '../../instance.ts';
import { ReplayShape } from '../../shapes/replay-shape.ts';
import { Uuid } from '../../shapes/scalar-shape.ts';
import { signCaller } from '../../tokens/caller-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { localCaller, type Refused } from '../local-caller.ts';
import { readSettings, typedId } from '../settings.ts';
import { aligned, counted, openTerminal, type Terminal } from '../terminal.ts';
import { FIRST_CLIENT } from './init.ts';

interface ReplayOptions {
  readonly organization: string;
  readonly json: boolean;
}

type Replay = z.infer<typeof ReplayShape>;
type Source = Replay['sources'][number];
type Counts = Extract<Replay['changes'][number], { kind: 'audience' }>['came'];

/** Adds `earshot replay`: a recorded decision beside what it comes to on the facts of now. */
export function addReplay(program: Command): void {
  program
    .command('replay')
    .description('judge a recorded decision again on the facts of now, and say what changed')
    .argument('<decision>', 'the id of the decision')
    .requiredOption('--organization <name>', 'the organization')
    .option('--json', 'answer with JSON', false)
    .action(async (decision: string, options: ReplayOptions) =>
      replay(decision, options, openTerminal(options.json)),
    );
}

/** Asks the gateway's own HTTP app. A decision that would be another one now is an answer, not a failure. */
async function replay(decision: string, options: ReplayOptions, terminal: Terminal): Promise<void> {
  const organization = typedId('--organization', options.organization);
  if (!Uuid.safeParse(decision).success) {
    const mend = 'Refusals and packets name their decision, and so do the records.';
    throw new Failure(EXIT.usage, 'usage', 'decision: it is not the id of a decision.', mend);
  }
  const config = readSettings();
  const instance = await openInstance(config);
  try {
    const token = await signCaller(instance.gateway.keys, config.issuer, FIRST_CLIENT, 120);
    const path = `/v1/organizations/${encodeURIComponent(organization)}/decisions/${decision}/replay`;
    const told = await localCaller(instance.app).call(ReplayShape, { method: 'POST', path, token });
    if (!told.ok) throw failureOfReplaying(told);
    terminal.answer(told.body);
    tell(terminal, told.body);
  } finally {
    await instance.close();
  }
}

function tell({ say, colors }: Terminal, told: Replay): void {
  const { bold, dim, green, yellow } = colors;
  const { of, outcome, why, sources, notRepeated } = told;
  const mark = {
    same: green(bold('same')),
    changed: yellow(bold('changed')),
    not_judged: dim('not judged again'),
  }[outcome];
  const what = [of.kind, ...(of.tool === undefined ? [] : [of.tool])].join(' ');
  const where = of.destination === undefined ? '' : ` toward ${of.destination}`;
  say(`${mark}  ${bold(what)}${where}, ${of.at}`);
  say(dim(`decision ${of.decision}, asked again at ${told.at} as ${told.decision}`));
  say();
  for (const line of aligned(table(told))) say(`  ${line}`);
  if (sources.length > 0) {
    say();
    say(
      of.delivery === undefined && of.artifact === undefined ? 'It showed:' : 'It was made from:',
    );
    for (const line of aligned(sources.map(sourceRow))) say(`  ${line}`);
    if (!told.complete) say(dim('  There are more than are told here.'));
  }
  const notes = [
    ...(why === undefined ? [] : [WHY[why]]),
    ...(told.comparable === false ? [INCOMPARABLE] : []),
    ...notRepeated.map((one) => NOT_REPEATED[one]),
  ];
  if (notes.length > 0) say();
  for (const note of notes) say(dim(note));
}

/** A line for each thing that a decision depends on: then, now, and what is not as it was. */
function table({ then, now, changes }: Replay): string[][] {
  const changed = (kind: Replay['changes'][number]['kind']) =>
    changes.find((change) => change.kind === kind);
  const audience = changed('audience');
  const rows = [
    ['verdict', verdictOf(then), verdictOf(now), changed('verdict') ? 'another verdict' : ''],
    [
      'audience',
      shortened(then.fingerprint),
      shortened(now?.fingerprint),
      audience?.kind === 'audience' ? movesOf(audience) : '',
    ],
    ['mode', then.mode ?? '', now?.mode ?? '', changed('mode') ? 'another mode' : ''],
    [
      'bound',
      then.projectBound ?? '',
      now?.projectBound ?? '',
      changed('project_bound') ? 'another project' : '',
    ],
    [
      'policy',
      then.policyRevision ?? '',
      now?.policyRevision ?? '',
      changed('policy_revision') ? 'another revision' : '',
    ],
  ];
  return [
    ['', 'then', 'now', 'what changed'],
    ...rows.filter(([, was, is]) => `${was ?? ''}${is ?? ''}` !== ''),
  ];
}

function verdictOf(standing: Replay['now']): string {
  if (standing === undefined) return '';
  return standing.code === undefined ? standing.verdict : `refused: ${standing.code}`;
}

/** So much of a fingerprint as tells two apart. */
function shortened(fingerprint: string | undefined): string {
  return fingerprint?.slice(0, 12) ?? '';
}

function movesOf({
  came,
  gone,
  floorsMoved,
}: Extract<Replay['changes'][number], { kind: 'audience' }>): string {
  if (came === undefined) return 'others; who it was then is not known';
  const parts = [
    ...(came.length === 0 ? [] : [`came: ${listed(came)}`]),
    ...(gone === undefined || gone.length === 0 ? [] : [`gone: ${listed(gone)}`]),
    ...(floorsMoved === undefined || floorsMoved.length === 0
      ? []
      : [`other floors: ${listed(floorsMoved)}`]),
  ];
  return parts.join('; ');
}

/** Readers by name where they may be named, a few of them, and else as a number. */
function listed(counts: NonNullable<Counts>): string {
  return counts
    .map(({ kind, count, ids }) => {
      if (kind === 'class:organization') return 'everybody in the organization';
      const noun = kind === 'user' ? counted(count, 'person', 'people') : counted(count, 'project');
      if (ids === undefined) return noun;
      const rest = ids.length > 5 ? `, and ${counted(ids.length - 5, 'more')}` : '';
      return `${noun} (${ids.slice(0, 5).join(', ')}${rest})`;
    })
    .join(', ');
}

function sourceRow(source: Source): string[] {
  const { type, conversation, seq, fromSeq, artifact, revision, revisionNow, now } = source;
  const name = {
    message: `${conversation}/${seq ?? ''}`,
    stretch: `${conversation} from ${fromSeq ?? ''}`,
    artifact: `artifact ${artifact ?? ''}`,
  }[type];
  const read = source.inherited === true ? 'inherited' : '';
  return [
    name,
    type === 'message' && revision !== undefined ? `revision ${revision}` : read,
    now,
    now === 'edited' && revisionNow !== undefined
      ? `revision ${revisionNow} now`
      : source.reasons.map(sentence).join('; '),
  ];
}

function sentence(reason: Source['reasons'][number]): string {
  switch (reason.kind) {
    case 'deleted':
      return 'deleted';
    case 'staged':
      return 'being imported';
    case 'unaccounted_answer':
      return 'an answer that no delivery accounts for';
    case 'lineage':
      return 'made from something that is not readable';
    case 'turn_refused':
      return `no turn stands there: ${reason.code}`;
    case 'mode':
      return `the mode ${reason.mode} draws on the destination alone`;
    case 'project_bound':
      return `not of the project ${reason.project}`;
    case 'not_read':
      return `not read by ${listed(reason.readers)}`;
    case 'below_floor':
      return `below the floor of ${listed(reason.readers)}`;
  }
}

const WHY = {
  course: 'It is a step of something that is over, and no rule is asked again.',
  request_not_kept: 'What was asked is on record as a digest alone.',
  act: 'It is what somebody did; no rule decided it.',
  assertion: 'It was registered for nobody in particular; its sources are told as they are.',
} as const;

const INCOMPARABLE = 'It was refused for the course of its turn, which is not judged again.';

const NOT_REPEATED = {
  query: 'What else the search would find is not known: its words are on record as a digest.',
  course: 'Whether turn, lease, grant and session are still those is not asked.',
  shown_readers: 'Whom the platform showed is not on record.',
} as const;

function failureOfReplaying({ problem }: Refused): Failure {
  const mends: Partial<Record<string, string>> = {
    not_found: 'Check --organization and the decision.',
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
