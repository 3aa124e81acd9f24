// What a step of a delivery and a change of what it stands on make of each other, in either order. The races hold every cell to
// this, and docs/races.md shows it.

/** One that goes by itself, and one that a person approves and a worker claims. */
export const FLOWS = {
  direct: ['propose', 'release', 'acknowledge', 'its message arrives'],
  queued: ['ask for approval', 'approve', 'claim', 'release a claimed one', 'acknowledge that'],
} as const;
export type Flow = keyof typeof FLOWS;
export type Step = (typeof FLOWS)[Flow][number];

/** Those that are raced. Asking for an approval is a proposal like another. */
export const STEPS = [...FLOWS.direct, ...FLOWS.queued.slice(1)] as readonly Exclude<
  Step,
  'ask for approval'
>[];
export type RacedStep = (typeof STEPS)[number];

export const CHANGES = [
  'somebody joins the destination',
  'somebody leaves the destination',
  'a rejoin raises a floor',
  'a rejoin lowers a floor',
  'the destination is opened to a class',
  'a reader loses a source',
  'a source is edited',
  'a source is deleted',
  'a reader is deactivated',
  'a stop is set',
] as const;
export type Change = (typeof CHANGES)[number];

/** One of the two orders. */
export interface Order {
  /** Whether the second waits for the first until that one has committed. Not said where either will do. */
  readonly waits?: boolean;
  /** What the step gives: the state of the delivery, or the refusal that leaves it as it is. */
  readonly gives: string;
  /** The delivery at its end: after both, and every step that is left. */
  readonly end: string;
}

/** One step and one change: what comes about where the change is first, and where the step is. */
export interface Cell {
  readonly changeFirst: Order;
  readonly stepFirst: Order;
}

/** A step that judges: whoever comes second waits, and the step holds what the change makes impossible. */
function judging(code: string, gives: string, end = `held: ${code}`): Cell {
  const held = `held: ${code}`;
  return {
    changeFirst: { waits: true, gives: held, end: held },
    stepFirst: { waits: true, gives, end },
  };
}

/** A claim judges nothing and waits for nobody: the release does. */
function claiming(code: string): Cell {
  const order = { waits: false, gives: 'claimed', end: `held: ${code}` };
  return { changeFirst: order, stepFirst: order };
}

/** What was sent was sent: no change takes a report back. It waits for those alone that concern its conversation. */
function reporting(waits: boolean): Cell {
  const order = { waits, gives: 'delivered', end: 'delivered' };
  return { changeFirst: order, stepFirst: order };
}

/** The row of a change by which a verdict is `code` from then on. */
function row(code: string, place: 'destination' | 'elsewhere'): Record<RacedStep, Cell> {
  const report = reporting(place === 'destination');
  return {
    propose: judging(code, 'cleared'),
    release: judging(code, 'released', 'delivered'),
    acknowledge: report,
    'its message arrives': report,
    approve: judging(code, 'cleared'),
    claim: claiming(code),
    'release a claimed one': judging(code, 'released', 'delivered'),
    'acknowledge that': report,
  };
}

/**
 * A deletion takes the text of whatever was made from it, wherever it is: it waits for whoever has one of these deliveries, and whatever
 * comes after it finds them held.
 */
function deletion(of: Record<RacedStep, Cell>): Record<RacedStep, Cell> {
  const report = { gives: 'delivered', end: 'delivered' };
  const linking = { changeFirst: report, stepFirst: report };
  const { approve, claim } = of;
  return {
    ...of,
    acknowledge: linking,
    'its message arrives': linking,
    'acknowledge that': linking,
    approve: { ...approve, changeFirst: { ...approve.changeFirst, gives: 'refused: conflict' } },
    claim: { ...claim, stepFirst: { ...claim.stepFirst, waits: true } },
  };
}

export const RACES: Readonly<Record<Change, Readonly<Record<RacedStep, Cell>>>> = {
  'somebody joins the destination': row('audience_changed', 'destination'),
  'somebody leaves the destination': row('audience_changed', 'destination'),
  'a rejoin raises a floor': row('audience_changed', 'destination'),
  'a rejoin lowers a floor': row('audience_changed', 'destination'),
  // Who comes in by the class begins behind the head, and so behind what the turn answers.
  'the destination is opened to a class': row('trigger_out_of_scope', 'destination'),
  'a reader loses a source': row('source_revoked', 'elsewhere'),
  'a source is edited': row('source_changed', 'elsewhere'),
  'a source is deleted': deletion(row('source_revoked', 'elsewhere')),
  'a reader is deactivated': row('audience_changed', 'elsewhere'),
  'a stop is set': row('stopped', 'elsewhere'),
};

/** The section of docs/races.md. */
export function raceTables(): string {
  const told = (text: string) => text.replace(/^(held|refused): (\w+)$/, '$1: `$2`');
  const shown = ({ waits, gives, end }: Order) =>
    told(gives) +
    (waits === false ? ' at once' : '') +
    (gives === end ? '' : `, then ${told(end)}`);
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const table = (order: keyof Cell, steps: readonly RacedStep[]) => [
    line(['', ...steps]),
    line(['', ...steps].map(() => '---')),
    ...CHANGES.map((change) =>
      line([change, ...steps.map((step) => shown(RACES[change][step][order]))]),
    ),
    '',
  ];
  const [direct, queued] = [STEPS.slice(0, 4), STEPS.slice(4)];
  return [
    ...['### The change comes first', '', ...table('changeFirst', direct)],
    ...table('changeFirst', queued),
    ...['### The step comes first', '', ...table('stepFirst', direct)],
    ...table('stepFirst', queued),
  ].join('\n');
}
