#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addAsk } from './commands/ask.ts';
import { addClientCommand } from './commands/client.ts';
import { addCompile } from './commands/compile.ts';
import { addDelivery } from './commands/delivery.ts';
import { addDemo } from './commands/demo.ts';
import { addDoctor } from './commands/doctor.ts';
import { addExplain } from './commands/explain.ts';
import { addImport } from './commands/import.ts';
import { addInit } from './commands/init.ts';
import { addKeys } from './commands/keys.ts';
import { addLineage } from './commands/lineage.ts';
import { addMigrate } from './commands/migrate.ts';
import { addReplay } from './commands/replay.ts';
import { addServe } from './commands/serve.ts';
import { EXIT, failureOf } from './failure.ts';
import { openTerminal } from './terminal.ts';
import { VERSION } from '../version.ts';

const program = new Command('earshot')
  .description('An audience-gated retrieval gateway for AI assistants.')
  .version(VERSION)
  .exitOverride()
  .showHelpAfterError('(`--help` says what there is.)')
  .addHelpText(
    'after',
    `
Every command takes --json. It ends with
  0  done
  1  refused, or something could not be done
  2  the command line or the configuration is not right
  3  what it needs does not answer now`,
  );
const commands = [
  ...[addInit, addServe, addMigrate, addKeys, addClientCommand],
  ...[
    addImport,
    addAsk,
    addExplain,
    addReplay,
    addLineage,
    addDelivery,
    addCompile,
    addDemo,
    addDoctor,
  ],
];
for (const add of commands) {
  add(program);
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Tells a failure where it is looked for, and gives the exit code. */
function report(error: unknown): number {
  const json = process.argv.includes('--json');
  if (error instanceof CommanderError) {
    // It has told the person already: help and version are no failures.
    if (error.exitCode === 0) return EXIT.ok;
    const message = error.message.replace(/^error: /, '');
    if (json) openTerminal(true).answer({ error: { code: 'usage', message } });
    return EXIT.usage;
  }
  const { code, message, mend, exitCode } = failureOf(error);
  if (json) {
    openTerminal(true).answer({ error: { code, message, ...(mend !== undefined && { mend }) } });
  } else {
    process.stderr.write(`earshot: ${message}\n${mend === undefined ? '' : `${mend}\n`}`);
  }
  return exitCode;
}
