import type { ConversationFact, Fact, History, MessageFact, UserFact } from '../../policy/fact.ts';
import { type ExternalId, parseExternalId } from '../../policy/identity.ts';
import { type Instant, parseInstant } from '../../policy/instant.ts';
import { ExportFault, type ExportSource, parseJson, readJson } from './export-source.ts';
import { readConversations, type SlackConversation } from './slack/conversation.ts';
import { type Directory, readDirectory, SLACKBOT } from './slack/directory.ts';
import { findLayout } from './slack/layout.ts';
import type { Names } from './slack/markup.ts';
import { authorId, parseMessage, type SlackMessage } from './slack/message.ts';
import { repaired } from './slack/repair.ts';
import { type ExternalReason, ReportDraft, type SlackReport } from './slack/report.ts';
import { Transcript } from './slack/transcript.ts';

export interface SlackOptions {
  /** What a member reads of what came before the join. Slack itself shows everything. */
  readonly history: 'all' | 'from_join';
  /** Whether public channels are open to the whole organization, as in Slack, or to their members only. */
  readonly openChannels: boolean;
  /** User ids or bot ids of bots that carry messages to people outside: matrix, IRC and e-mail bridges. */
  readonly relayBots?: readonly string[];
  readonly onProgress?: (progress: SlackProgress) => void;
}

interface SlackProgress {
  /** Files read so far, of `total`. Each day file is read twice: once for its bots, once for its messages. */
  readonly done: number;
  readonly total: number;
  /** The id of the conversation being read. */
  readonly label: string;
}

/**
 * Reads a Slack export as facts: the users and bots, then for each conversation its (staged) fact,
 * its messages in order, its members, and `open`. One day file and one conversation are held at a
 * time. Nothing is written, and whether an embed or a reply names an existing message is not asked.
 *
 * An entry or a day file that cannot be read is left out and reported. Throws {@link ExportFault}
 * before the first fact when the lists of users or conversations are missing or unreadable, or a relay
 * bot that was named is not in the export.
 */
export async function* readSlackExport(
  source: ExportSource,
  options: SlackOptions,
): AsyncGenerator<Fact, SlackReport> {
  const report = new ReportDraft();
  const layout = findLayout(source, report);
  const directory = readDirectory(await readList(source, layout.usersFile), report);
  const lists = [];
  for (const { list, file } of layout.lists) {
    lists.push({ list, entries: await readList(source, file) });
  }
  const conversations = readConversations(lists, layout, report);

  const total = 2 * conversations.reduce((sum, { dayFiles }) => sum + dayFiles.length, 0);
  let done = 0;
  const step = (label: string): void => options.onProgress?.({ done: ++done, total, label });

  const bots = await findBots(source, conversations, directory, report, step);
  const workspace: Workspace = {
    directory,
    bots,
    relays: relaysNamed(options.relayBots ?? [], directory, bots),
    names: namesOf(directory, conversations),
    options,
    report,
  };
  yield* directory.users.values();
  yield* bots.values();
  for (const conversation of conversations) {
    yield* readConversation(source, conversation, workspace, step);
  }
  return report.finish();
}

interface Workspace {
  readonly directory: Directory;
  /** Bots that post without being a user. */
  readonly bots: ReadonlyMap<string, UserFact>;
  readonly relays: ReadonlySet<string>;
  readonly names: Names;
  readonly options: SlackOptions;
  readonly report: ReportDraft;
}

async function readList(source: ExportSource, file: string): Promise<readonly unknown[]> {
  const base = file.slice(file.lastIndexOf('/') + 1);
  const entries = await readJson(source, file).catch((error: unknown) => {
    if (!(error instanceof ExportFault)) throw error;
    throw new ExportFault(error.code, `${base} cannot be read: ${error.message}`, error);
  });
  if (Array.isArray(entries)) return entries as readonly unknown[];
  throw new ExportFault('not_an_export', `${base} is not a list`);
}

/** Reads ahead for bots that post under a `bot_id` alone, because authors come before their messages. */
async function findBots(
  source: ExportSource,
  conversations: readonly SlackConversation[],
  directory: Directory,
  report: ReportDraft,
  step: (label: string) => void,
): Promise<Map<string, UserFact>> {
  const bots = new Map<string, UserFact>();
  for (const conversation of conversations) {
    for (const file of conversation.dayFiles) {
      step(conversation.id);
      for (const entry of await botEntries(source, file)) {
        const message = parseMessage(entry);
        const changed = message?.subtype === 'message_changed' && parseMessage(message.message);
        for (const one of [message, changed]) {
          const bot = one && botFact(one, directory);
          if (!bot || bots.has(bot.id)) continue;
          bots.set(bot.id, bot);
          report.users.bot += 1;
        }
      }
    }
  }
  return bots;
}

/** The entries of a day file that may have a bot in it; most have none and need no parsing. */
async function botEntries(source: ExportSource, file: string): Promise<readonly unknown[]> {
  try {
    const bytes = await source.read(file);
    const entries = bytes.includes('"bot_id"') ? parseJson(bytes) : [];
    return Array.isArray(entries) ? (entries as readonly unknown[]) : [];
  } catch (error) {
    if (error instanceof ExportFault) return []; // reported when its messages are read
    throw error;
  }
}

function botFact(message: SlackMessage, directory: Directory): UserFact | undefined {
  const user = authorId(message);
  if (!message.bot_id || (user !== undefined && directory.users.has(user))) return undefined;
  if (directory.botUsers.has(message.bot_id) || directory.users.has(message.bot_id))
    return undefined;
  const id = parseExternalId(message.bot_id);
  if (!id.ok) return undefined;
  const name = repaired(message.username ?? message.bot_profile?.name ?? '').text || id.id;
  return { fact: 'user', id: id.id, kind: 'bot', status: 'active', name };
}

function relaysNamed(
  named: readonly string[],
  directory: Directory,
  bots: ReadonlyMap<string, UserFact>,
): Set<string> {
  const relays = new Set<string>();
  for (const id of named) {
    relays.add(id);
    for (const [botId, userId] of directory.botUsers) {
      if (botId === id) relays.add(userId);
      if (userId === id) relays.add(botId);
    }
    const known = directory.users.has(id) || directory.botUsers.has(id) || bots.has(id);
    if (!known) {
      // A mistyped relay would leave its conversations looking closed, so nothing is read at all.
      throw new ExportFault('unknown_relay_bot', 'a relay bot that was named is not in it');
    }
  }
  return relays;
}

function namesOf(directory: Directory, conversations: readonly SlackConversation[]): Names {
  const publicNames = new Map(
    conversations
      .filter(({ sort }) => sort === 'public')
      .map(({ id, title }) => [id as string, title]),
  );
  return {
    user: (id) => directory.users.get(id)?.name,
    // A mention without a label would otherwise tell the name of a private channel.
    channel: (id) => publicNames.get(id),
  };
}

async function* readConversation(
  source: ExportSource,
  conversation: SlackConversation,
  workspace: Workspace,
  step: (label: string) => void,
): AsyncGenerator<Fact> {
  const { report } = workspace;
  const because = new Set<ExternalReason>();
  const transcript = new Transcript(
    conversation.id,
    workspace.names,
    {
      resolve: (message) => authorOf(message, workspace),
      witness: (message) => noteOutsiders(message, workspace, because),
    },
    report,
  );
  for (const file of conversation.dayFiles) {
    step(conversation.id);
    const day = `${conversation.id}${file.slice(file.lastIndexOf('/'))}`;
    const entries = await readDay(source, file).catch((error: unknown) => {
      if (!(error instanceof ExportFault)) throw error;
      report.skip('file', error.message, day);
      transcript.gap(endOfDay(file));
      return [];
    });
    for (const [index, entry] of entries.entries()) {
      transcript.add(entry, `${day}#${index + 1}`);
    }
  }
  const messages = transcript.finish();

  yield conversationFact(conversation, workspace, because);
  for (const message of messages) {
    count(message, report);
    yield message;
  }
  yield {
    fact: 'members',
    conversation: conversation.id,
    members: readersOf(conversation).map((user) => {
      if (!workspace.directory.users.has(user) && !workspace.bots.has(user)) {
        report.unresolvedMembers.push({ conversation: conversation.id, user });
      }
      return { user, history: historyOf(user, conversation, transcript, workspace) };
    }),
  };
  yield { fact: 'open', conversation: conversation.id };
}

async function readDay(source: ExportSource, file: string): Promise<readonly unknown[]> {
  const entries = await readJson(source, file);
  if (Array.isArray(entries)) return entries as readonly unknown[];
  throw new ExportFault('not_json', 'the file is not a list');
}

/** After everything that a day file can hold: its day is a local one, and the last ends 12 hours late. */
function endOfDay(file: string): Instant {
  const date = file.slice(-'YYYY-MM-DD.json'.length, -'.json'.length);
  return (parseInstant(`${date}T00:00:00Z`) ?? 0n) + 36n * 3_600_000_000n;
}

/** Slackbot sits in a direct message with everybody, is in few lists of users, and reads nothing. */
function readersOf(conversation: SlackConversation): readonly ExternalId[] {
  return conversation.members.filter((member) => member !== SLACKBOT);
}

/**
 * In direct messages, of two or more, nobody joins later: adding a person starts another
 * conversation. Elsewhere a join that the export does not tell of gives no history.
 */
function historyOf(
  user: ExternalId,
  conversation: SlackConversation,
  transcript: Transcript,
  { directory, options, report }: Workspace,
): History {
  if (options.history === 'all' || conversation.sort === 'mpim' || conversation.sort === 'dm') {
    return 'all';
  }
  const fromTime = transcript.lastJoin(user);
  if (fromTime !== undefined) return { fromTime };
  // A bot reads nothing, so nobody misses its join.
  if (directory.users.get(user)?.kind !== 'bot') {
    report.withoutJoin.push({ conversation: conversation.id, user });
  }
  return 'none';
}

function authorOf(message: SlackMessage, { directory, bots }: Workspace): ExternalId | undefined {
  const user = directory.users.get(authorId(message) ?? '');
  if (user) return user.id;
  const botId = message.bot_id ?? '';
  return directory.botUsers.get(botId) ?? directory.users.get(botId)?.id ?? bots.get(botId)?.id;
}

function noteOutsiders(
  message: SlackMessage,
  { directory, relays }: Workspace,
  because: Set<ExternalReason>,
): void {
  const user = authorId(message);
  if ((user !== undefined && relays.has(user)) || relays.has(message.bot_id ?? '')) {
    because.add('relay_bot');
  }
  if (user === undefined || user === SLACKBOT || directory.users.has(user)) return;
  // People of other workspaces are seldom in the list of users; their messages name their team.
  const team = message.user_team ?? message.source_team ?? directory.homeTeam;
  if (directory.outsiders.has(user) || team !== directory.homeTeam) because.add('outsider_author');
}

function conversationFact(
  conversation: SlackConversation,
  { directory, relays, options, report }: Workspace,
  because: Set<ExternalReason>,
): ConversationFact {
  const { id, sort, title, creator, archived, members } = conversation;
  if (conversation.shared) because.add('shared');
  if (conversation.unreadableMember) because.add('unreadable_member');
  if (members.some((member) => directory.outsiders.has(member))) because.add('outsider_member');
  if (members.some((member) => relays.has(member))) because.add('relay_bot');
  if (because.size > 0) report.externalReaders.push({ conversation: id, because: [...because] });
  if (members.length === 0) report.withoutMembers.push({ conversation: id, archived });

  const kind = sort === 'public' ? 'channel' : sort === 'dm' ? 'direct' : 'group';
  report.conversations[kind] += 1;
  const owner = kind === 'channel' ? undefined : directory.users.get(creator ?? '')?.id;
  return {
    fact: 'conversation',
    id,
    kind,
    visibility: options.openChannels && kind === 'channel' ? 'organization' : 'members',
    ...(owner === undefined ? {} : { owner }),
    aiThread: false,
    externalReaders: because.size > 0,
    archived,
    ...(title === undefined ? {} : { title }),
    staged: true,
  };
}

function count(message: MessageFact, report: ReportDraft): void {
  const outcome =
    message.deleted === true
      ? 'deleted'
      : message.kind === 'event'
        ? 'event'
        : message.editedAt === undefined
          ? 'live'
          : 'edited';
  report.messages[outcome] += 1;
  if (message.author === undefined) report.messagesWithoutAuthor += 1;
  report.embeds += message.embeds?.length ?? 0;
}
