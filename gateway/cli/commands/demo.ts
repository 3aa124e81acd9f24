import { Option, type Command } from 'commander';
import { runDemo } from '../../demo/demo.ts';
import { EXIT } from '../failure.ts';
import { typedPath } from '../settings.ts';
import { openTerminal } from '../terminal.ts';

interface DemoOptions {
  readonly slack?: string;
  readonly history: 'all' | 'from_join';
  readonly json: boolean;
}

/** Adds `earshot demo`: the story, checked as it is told. Exits 1 if any of it did not hold. */
export function addDemo(program: Command): void {
  program
    .command('demo')
    .description('tell the whole story on an embedded PostgreSQL that is gone afterwards')
    .option(
      '--slack <path>',
      'with an export of yours, a folder or a zip, instead of a small world',
    )
    .addOption(
      new Option('--history <option>', 'what members of the export read of before they joined')
        .choices(['all', 'from_join'])
        .default('from_join'),
    )
    .option('--json', 'answer with JSON', false)
    .action(async ({ slack, history, json }: DemoOptions) => {
      const source = slack === undefined ? undefined : { path: typedPath(slack), history };
      const held = await runDemo(source, openTerminal(json));
      process.exitCode = held ? EXIT.ok : EXIT.refused;
    });
}
