import { Option, type Command } from 'commander';
import { openExport } from '../../importers/export-source.ts';
import { importFacts } from '../../importers/import-engine.ts';
import type { ImportReport } from '../../importers/import-report.ts';
import { readSlackExport } from '../../importers/slack.ts';
import type { SlackReport, Skipped } from '../../importers/slack/report.ts';
import { openInstance } from '../../instance.ts';
import { EXIT } from '../failure.ts';
import { openProgress } from '../progress.ts';
import { readSettings, typedId, typedPath } from '../settings.ts';
import { counted, openTerminal, type Terminal } from '../terminal.ts';

interface SlackImportOptions {
  readonly organization: string;
  readonly history: 'all' | 'from_join';
  readonly openChannels: boolean;
  readonly relayBot: readonly string[];
  readonly source: string;
  readonly json: boolean;
}

/** A batch of large texts may take longer than a request may. */
const STATEMENT_TIMEOUT_MS = 10 * 60_000;

export function addImport(program: Command): void {
  const command = program.command('import').description('import conversations that people have');
  command
    .command('slack')
    .description('import a Slack export: a folder or a zip')
    .argument('<path>')
    .requiredOption('--organization <name>', 'where it goes; created if it is new')
    .addOption(
      new Option('--history <option>', 'what members read of what came before they joined')
        .choices(['all', 'from_join'])
        .default('from_join'),
    )
    .option('--open-channels', 'public channels are open to the whole organization', false)
    .option(
      '--relay-bot <id>',
      'a bot that carries messages to people outside; may be given again',
      (id: string, ids: string[]) => [...ids, id],
      [],
    )
    .option('--source <name>', 'the name under which a later run finds this one', 'slack')
    .option('--json', 'answer with JSON', false)
    .action(async (path: string, options: SlackImportOptions) => {
      process.exitCode = await importSlack(path, options, openTerminal(options.json));
    });
}

async function importSlack(
  path: string,
  options: SlackImportOptions,
  terminal: Terminal,
): Promise<number> {
  const organization = typedId('--organization', options.organization);
  const source = typedId('--source', options.source);
  const config = readSettings();
  const files = await openExport(typedPath(path));
  const progress = openProgress('Importing', terminal.isTerminal);
  try {
    const instance = await openInstance({ ...config, statementTimeoutMs: STATEMENT_TIMEOUT_MS });
    try {
      const { report, result } = await importFacts(
        { database: instance.gateway.database, organization, source, editsAreDated: true },
        readSlackExport(files, {
          history: options.history,
          openChannels: options.openChannels,
          relayBots: options.relayBot,
          onProgress: ({ done, total }) => {
            progress.at(done, total);
          },
        }),
      );
      progress.stop();
      const missing = result.skipped.filter(isLoss);
      const whole =
        report.failed.length === 0 && report.unopened.length === 0 && missing.length === 0;
      terminal.answer({ organization, source, whole, import: report, export: result });
      tell(terminal, organization, report, result);
      return whole ? EXIT.ok : EXIT.refused;
    } finally {
      await instance.close();
    }
  } finally {
    progress.stop();
    await files.close();
  }
}

/** What an export holds beside people and messages, or holds twice, is left out without loss. */
const NO_LOSS = new Set([
  'user belongs to another workspace',
  'user is listed twice',
  'conversation is listed twice; the stricter entry counts',
  'message is in the export twice',
  'message only announces a reply',
  'quote names no message',
  'reply names no message',
  'change names no message',
  'deletion names no message',
  'file is no day of messages',
  'file holds no users, conversations or messages',
]);
const isLoss = ({ what, why }: Skipped) => !NO_LOSS.has(`${what} ${why}`);

function tell(
  terminal: Terminal,
  organization: string,
  report: ImportReport,
  slack: SlackReport,
): void {
  const { bold, dim, yellow, red } = terminal.colors;
  const { user, conversation, message, member } = report.counts;
  const line = (noun: string, outcomes: Readonly<Record<string, number>>) => {
    const said = Object.entries(outcomes).map(
      ([outcome, n]) => `${n.toLocaleString('en-US')} ${outcome}`,
    );
    if (said.length > 0) terminal.say(`  ${noun.padEnd(14)}${said.join(', ')}`);
  };
  terminal.say(`${bold(organization)}${report.organizationCreated ? dim(' created') : ''}`);
  line('people, bots', user);
  line('conversations', conversation);
  line('messages', message);
  line('members', member);

  const note = (paint: (text: string) => string, text: string) => {
    terminal.say(paint(`  ${text}`));
  };
  const late = message.late ?? 0;
  if (late > 0) {
    note(
      yellow,
      `${counted(late, 'message')} came late, sent before the newest join: kept unreadable until admitted`,
    );
  }
  if (slack.withoutJoin.length > 0) {
    note(
      dim,
      `${counted(slack.withoutJoin.length, 'membership')} without a join in the export: no history`,
    );
  }
  for (const [list, why] of [
    [slack.externalReaders, 'has readers outside'],
    [slack.unresolvedMembers, 'names a member nobody knows'],
  ] as const) {
    const ids = [...new Set(list.map((entry) => entry.conversation))];
    if (ids.length > 0) {
      note(yellow, `takes no answers, since it ${why}: ${shortList(ids)}`);
    }
  }
  const notes = (paint: (text: string) => string, word: string, list: readonly Skipped[]) => {
    for (const { what, why, count, examples } of list) {
      const names = examples.length === 0 ? '' : ` (${shortList(examples)})`;
      note(paint, `${word}: ${counted(count, what)} ${why}${names}`);
    }
  };
  notes(dim, 'kept as it is', report.kept);
  notes(
    dim,
    'left out',
    slack.skipped.filter((entry) => !isLoss(entry)),
  );
  notes(red, 'not imported', slack.skipped.filter(isLoss));
  notes(red, 'not imported', report.failed);
  if (report.unopened.length > 0) {
    note(red, `stays unreadable, since a part of it is missing: ${shortList(report.unopened)}`);
  }
}

function shortList(ids: readonly string[]): string {
  const shown = ids.slice(0, 5).join(', ');
  return ids.length > 5 ? `${shown} and ${(ids.length - 5).toString()} more` : shown;
}
