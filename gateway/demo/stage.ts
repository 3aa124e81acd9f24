import type { Terminal } from '../cli/terminal.ts';

/** One expectation of the story, and whether it held. */
export interface Check {
  readonly claim: string;
  readonly held: boolean;
  readonly found: unknown;
  readonly wanted: unknown;
}

/** Tells the story, and keeps every expectation of it. */
export class Stage {
  readonly steps: { readonly title: string; readonly checks: Check[] }[] = [];
  readonly #terminal: Terminal;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  step(title: string): void {
    this.steps.push({ title, checks: [] });
    this.#terminal.say();
    this.#terminal.say(this.#terminal.colors.bold(`${this.steps.length}. ${title}`));
  }

  tell(text: string): void {
    this.#terminal.say(`   ${text}`);
  }

  aside(text: string): void {
    this.#terminal.say(this.#terminal.colors.dim(`   ${text}`));
  }

  /** Notes whether what was found is what the story wants. A wrong verdict does not stop it. */
  expect(claim: string, found: unknown, wanted: unknown): void {
    const held = JSON.stringify(found) === JSON.stringify(wanted);
    this.steps.at(-1)?.checks.push({ claim, held, found, wanted });
    const { green, red, dim } = this.#terminal.colors;
    this.#terminal.say(
      held
        ? `   ${green('✓')} ${claim}${dim(verdictOf(found))}`
        : `   ${red('✗')} ${claim}: ${JSON.stringify(found)} where ${JSON.stringify(wanted)} was expected`,
    );
  }

  checks(): Check[] {
    return this.steps.flatMap(({ checks }) => checks);
  }
}

/** Codes and states beside a claim; what the claim says itself is not repeated. */
function verdictOf(found: unknown): string {
  const words =
    typeof found === 'string'
      ? [found]
      : typeof found === 'object'
        ? Object.values(found ?? {})
        : [];
  const codes = words.filter((word) => typeof word === 'string' && /^[a-z_]{4,30}$/.test(word));
  return codes.length === 0 ? '' : `: ${codes.join(', ')}`;
}

/** A text as one short line of a terminal, which would obey the control characters in it. */
export function excerpt(text: string, length = 100): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return plain.length > length ? `${plain.slice(0, length - 1)}…` : plain;
}
