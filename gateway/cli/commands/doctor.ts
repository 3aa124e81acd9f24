import type { Command } from 'commander';
import { checkUp, type Finding } from '../checkup.ts';
import { EXIT } from '../failure.ts';
import { readSettings } from '../settings.ts';
import { counted, openTerminal, type Terminal } from '../terminal.ts';

/** Adds `earshot doctor`: each thing the gateway needs, with its mend. Exits 1 if one fails. */
export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description('look at everything that the gateway needs, and say what mends it')
    .option('--json', 'answer with JSON', false)
    .action(async ({ json }: { json: boolean }) => {
      process.exitCode = await doctor(openTerminal(json));
    });
}

async function doctor(terminal: Terminal): Promise<number> {
  const findings: Finding[] = [];
  for await (const finding of checkUp(readSettings())) {
    findings.push(finding);
    tell(terminal, finding);
  }
  const failed = findings.filter(({ state }) => state === 'bad').length;
  terminal.answer({ healthy: failed === 0, findings });
  terminal.say();
  terminal.say(failed === 0 ? 'All is well.' : `${counted(failed, 'thing')} to mend.`);
  return failed === 0 ? EXIT.ok : EXIT.refused;
}

function tell({ say, colors }: Terminal, { check, state, found, mend }: Finding): void {
  const { green, red, yellow } = colors;
  const mark = { good: green('ok '), bad: red('bad'), unknown: yellow('?  ') }[state];
  say(`${mark} ${check.padEnd(18)} ${found}`);
  if (mend !== undefined) say(`${' '.repeat(23)}${mend}`);
}
