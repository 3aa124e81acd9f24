import { isatty } from 'node:tty';
import pc from 'picocolors';

/** Where a command writes. With `--json` standard output holds one JSON document and nothing else. */
export interface Terminal {
  readonly json: boolean;
  /** Whether standard output is a terminal that a person looks at. */
  readonly isTerminal: boolean;
  readonly colors: ReturnType<typeof pc.createColors>;
  /** A line for people. Silent with `--json`. */
  readonly say: (line?: string) => void;
  /** The document of `--json`. Silent without. */
  readonly answer: (document: object) => void;
}

export function openTerminal(json: boolean): Terminal {
  // Not `process.stdout.isTTY`: it is undefined off a terminal, and colors would then decide for themselves.
  const isTerminal = isatty(1);
  const { NO_COLOR = '', TERM } = process.env;
  return {
    json,
    isTerminal: isTerminal && !json,
    colors: pc.createColors(isTerminal && NO_COLOR === '' && TERM !== 'dumb'),
    say: (line = '') => {
      if (!json) process.stdout.write(`${line}\n`);
    },
    answer: (document) => {
      if (json) process.stdout.write(`${JSON.stringify(document, undefined, 2)}\n`);
    },
  };
}

/** Rows as lines, with the cells of each column below each other. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const length = (text = '') => Array.from(text).length;
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => length(row[column]))),
  );
  return rows.map((row) =>
    row
      .map((text, column) => text + ' '.repeat((widths[column] ?? 0) - length(text)))
      .join('  ')
      .trimEnd(),
  );
}

/** A text as one line of a terminal: control characters would be obeyed by it. */
export function oneLine(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return plain.length > 200 ? `${plain.slice(0, 199)}…` : plain;
}

/** `1 person`, `2 people`, `1,382 messages`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : many}`;
}
