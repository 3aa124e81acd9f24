import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOrganization } from '../../sql/organization.ts';
import { openProgress } from '../cli/progress.ts';
import { counted, type Terminal } from '../cli/terminal.ts';
import { readConfig } from '../config.ts';
import { openExport } from '../importers/export-source.ts';
import { importFacts } from '../importers/import-engine.ts';
import { readSlackExport } from '../importers/slack.ts';
import { openInstance, type Instance } from '../instance.ts';
import { createKeys } from '../keys.ts';
import { BAKERY, bakeryAfter, bakeryBefore } from './bakery.ts';
import type { Cast } from './cast.ts';
import { openCompany } from './company.ts';
import { ExportCast, IMPORTED } from './export-cast.ts';
import { Stage } from './stage.ts';
import { tellStory } from './story.ts';

export interface DemoExport {
  readonly path: string;
  readonly history: 'all' | 'from_join';
}

/**
 * Tells the story on an embedded server of its own, whose folder is gone afterwards, and says
 * whether every expectation of it held. Without an export it is told with a small world.
 */
export async function runDemo(slack: DemoExport | undefined, terminal: Terminal): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'earshot-demo-'));
  // Who interrupts it leaves nothing behind; the server ends with its owner.
  const interrupted = () => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    process.exit(130);
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    // The settings of the surroundings, a database among them, are for the gateway and not for this.
    const config = readConfig({ EARSHOT_DATA_DIR: folder, EARSHOT_STATEMENT_TIMEOUT_MS: '60000' });
    await createKeys(folder);
    const instance = await openInstance(config);
    try {
      return await tell(instance, slack, terminal);
    } finally {
      await instance.close();
    }
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await rm(folder, { recursive: true, force: true });
  }
}

async function tell(
  instance: Instance,
  slack: DemoExport | undefined,
  terminal: Terminal,
): Promise<boolean> {
  const { say, colors } = terminal;
  const stage = new Stage(terminal);
  const prepared =
    slack === undefined
      ? await prepareBakery(instance, terminal)
      : await prepareExport(instance, slack, terminal);
  if (typeof prepared.cast === 'string') {
    say(`The story cannot be told: ${prepared.cast}`);
    terminal.answer({ held: true, told: false, why: prepared.cast, ...prepared.counts });
    return true;
  }
  const { cast } = prepared;
  for (const why of cast.missing) say(colors.dim(`Not shown: ${why}.`));
  const company = await openCompany(instance, cast.organization);
  await tellStory(company, cast, stage);

  const checks = stage.checks();
  const failed = checks.filter(({ held }) => !held);
  const held = failed.length === 0;
  say();
  say(
    held
      ? colors.green(`All ${checks.length} expectations held.`)
      : colors.red(`${failed.length} of ${checks.length} expectations did not hold.`),
  );
  terminal.answer({
    held,
    told: true,
    missing: cast.missing,
    ...prepared.counts,
    steps: stage.steps,
  });
  return held;
}

interface Prepared {
  readonly cast: Cast | string;
  readonly counts: Readonly<Record<string, number>>;
}

async function prepareBakery(instance: Instance, { say }: Terminal): Promise<Prepared> {
  await createOrganization(instance.gateway.database, BAKERY.organization);
  const company = await openCompany(instance, BAKERY.organization);
  await company.putLines(bakeryBefore(Date.now()));
  // A millisecond is longer than the database's microseconds: this is after Cleo joined.
  await company.putLines(bakeryAfter(Date.now() + 1));
  say('A bakery: Ada and Ben plan, Dara sits on the board, Cleo came to #recipes later.');
  say('Every call goes over HTTP with a token of its own, to a PostgreSQL made for this.');
  return { cast: BAKERY, counts: {} };
}

async function prepareExport(
  instance: Instance,
  { path, history }: DemoExport,
  { say, isTerminal, colors }: Terminal,
): Promise<Prepared> {
  const files = await openExport(path);
  const progress = openProgress('Importing', isTerminal);
  const watched = new ExportCast();
  try {
    const { report } = await importFacts(
      {
        database: instance.gateway.database,
        organization: IMPORTED,
        source: IMPORTED,
        editsAreDated: true,
      },
      watched.watch(
        readSlackExport(files, {
          history,
          openChannels: false,
          onProgress: ({ done, total }) => {
            progress.at(done, total);
          },
        }),
      ),
    );
    progress.stop();
    const messages = report.counts.message.appended ?? 0;
    const { people, conversations } = watched.counts();
    say(
      `Imported ${[
        counted(people, 'person', 'people'),
        counted(conversations, 'conversation'),
        counted(messages, 'message'),
      ].join(', ')}.`,
    );
    for (const { what, why, count } of report.failed) {
      say(colors.yellow(`Not imported: ${counted(count, what)}. ${why}`));
    }
    return { cast: watched.choose(IMPORTED), counts: { people, conversations, messages } };
  } finally {
    progress.stop();
    await files.close();
  }
}
