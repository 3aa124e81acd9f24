import { z } from 'zod';
import type { UserFact } from '../../../policy/fact.ts';
import { type ExternalId, parseExternalId } from '../../../policy/identity.ts';
import { decodeEntities } from './markup.ts';
import type { ReportDraft } from './report.ts';
import { repaired } from './repair.ts';

/** The people and bots of a workspace, and who of those named in it belongs to another one. */
export interface Directory {
  readonly users: ReadonlyMap<string, UserFact>;
  readonly outsiders: ReadonlySet<string>;
  /** The workspace that the export is of, where the users say it. */
  readonly homeTeam: string | undefined;
  /** From the `bot_id` that a post carries to the bot user of the same app. */
  readonly botUsers: ReadonlyMap<string, ExternalId>;
}

export const SLACKBOT = 'USLACKBOT';

// The flags decide who reads, so a flag of another type makes the entry unreadable: its user stays
// unknown, and a conversation with an unknown member has no listable audience.
const flag = z.boolean().nullish();
const text = z.string().nullish().catch(undefined);

const userEntry = z.object({
  id: z.string(),
  team_id: z.string().nullish(),
  name: text,
  real_name: text,
  deleted: flag,
  is_bot: flag,
  is_app_user: flag,
  is_restricted: flag,
  is_ultra_restricted: flag,
  is_stranger: flag,
  is_primary_owner: flag,
  profile: z
    .object({ display_name: text, real_name: text, bot_id: text, api_app_id: text })
    .nullish()
    .catch(undefined),
  enterprise_user: z
    .object({ teams: z.array(z.string()).nullish() })
    .nullish()
    .catch(undefined),
});

type UserEntry = z.infer<typeof userEntry>;

/** Reads the list of users. An entry that cannot be read is left out and reported. */
export function readDirectory(entries: readonly unknown[], report: ReportDraft): Directory {
  const known = new Map<ExternalId, UserEntry>();
  for (const [index, entry] of entries.entries()) {
    const place = `users.json#${index + 1}`;
    const parsed = userEntry.safeParse(entry);
    if (!parsed.success) {
      report.skip('user', 'has fields of unknown form', place);
      continue;
    }
    const id = parseExternalId(parsed.data.id);
    if (!id.ok) report.skip('user', `id is ${id.fault}`, place);
    else if (known.has(id.id)) report.skip('user', 'is listed twice', id.id);
    else known.set(id.id, parsed.data);
  }

  const homeTeam = findHomeTeam([...known.values()]);
  const users = new Map<string, UserFact>();
  const outsiders = new Set<string>();
  const botUsers = new Map<string, ExternalId>();
  for (const [id, entry] of known) {
    if (isOutsider(entry, homeTeam)) {
      outsiders.add(id);
      report.skip('user', 'belongs to another workspace', id);
      continue;
    }
    const kind = kindOf(entry);
    const status = entry.deleted === true ? 'deactivated' : 'active';
    users.set(id, { fact: 'user', id, kind, status, name: nameOf(entry) });
    report.users[kind] += 1;
    if (status === 'deactivated') report.deactivatedUsers += 1;
    const botId = entry.profile?.bot_id;
    if (kind === 'bot' && botId) botUsers.set(botId, id);
  }
  return { users, outsiders, homeTeam, botUsers };
}

/** The primary owner's workspace, else the one that most users belong to. */
function findHomeTeam(entries: readonly UserEntry[]): string | undefined {
  const votes = new Map<string, number>();
  for (const entry of entries) {
    const team = entry.team_id;
    if (!team || entry.is_stranger === true) continue;
    if (entry.is_primary_owner === true) return team;
    votes.set(team, (votes.get(team) ?? 0) + 1);
  }
  return [...votes].sort(([, a], [, b]) => b - a)[0]?.[0];
}

function isOutsider(entry: UserEntry, homeTeam: string | undefined): boolean {
  if (entry.is_stranger === true) return true;
  if (!entry.team_id || homeTeam === undefined || entry.team_id === homeTeam) return false;
  // Inside one Enterprise organization a colleague's own workspace may be another one.
  return entry.enterprise_user?.teams?.includes(homeTeam) !== true;
}

/**
 * `is_app_user` alone makes nobody a bot: Slack documents it as "an authorized user of the calling
 * app", and a person taken for a bot would read unseen. Slackbot says `is_bot: false` of itself.
 */
function kindOf(entry: UserEntry): UserFact['kind'] {
  const hasApp = Boolean(entry.profile?.bot_id) || Boolean(entry.profile?.api_app_id);
  if (entry.id === SLACKBOT || entry.is_bot === true || (entry.is_app_user === true && hasApp)) {
    return 'bot';
  }
  return entry.is_restricted === true || entry.is_ultra_restricted === true ? 'guest' : 'member';
}

function nameOf(entry: UserEntry): string {
  const name =
    [entry.profile?.display_name, entry.real_name, entry.profile?.real_name, entry.name].find(
      Boolean,
    ) ?? entry.id;
  return repaired(decodeEntities(name)).text;
}
