import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { Database } from '../../sql/database.ts';

/** How much of everything there is, and the seed it is drawn from. */
export interface Sizes {
  readonly seed: number;
  readonly users: number;
  readonly conversations: number;
  /** About as many: a person drawn twice for one conversation is in it once. */
  readonly memberships: number;
  readonly projects: number;
  /** About as many: lengths of conversations are drawn. */
  readonly messages: number;
}

export const FULL: Sizes = {
  seed: 1,
  users: 20_000,
  conversations: 200_000,
  memberships: 4_900_000,
  projects: 2_000,
  messages: 3_000_000,
};

/** A share of the full size: people, places and projects shrink, a person's conversations stay as many. */
export function scaled(share: number, seed = FULL.seed): Sizes {
  const part = (whole: number) => Math.max(1, Math.round(whole * share));
  const users = Math.max(200, part(FULL.users));
  return {
    seed,
    users,
    conversations: Math.max(2_000, part(FULL.conversations)),
    // What power users hold shrinks twice, their number and each one's.
    memberships: Math.round(users * 140 + 2_160_000 * share * share),
    projects: Math.max(16, part(FULL.projects)),
    messages: part(FULL.messages),
  };
}

const FOLDER = new URL('./dataset/', import.meta.url);
const TABLES = ['memberships', 'messages', 'conversations', 'project_members', 'users'];

/** Names the data: the seed, the sizes, how they are drawn, and the schema they are drawn into. */
export async function datasetDigest(sizes: Sizes, migrations: URL): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(sizes));
  for (const folder of [FOLDER, migrations]) {
    for (const name of (await readdir(folder)).sort())
      hash.update(name).update(await readFile(new URL(name, folder)));
  }
  return hash.digest('hex').slice(0, 12);
}

/**
 * Fills a migrated, empty database by set-based statements. Foreign keys sleep meanwhile, and so do the
 * triggers whose work is done at once; indexes that hold no constraint are made afterwards. For this
 * the login must be a superuser's.
 *
 * @param say is told each step once it is done
 */
export async function loadDataset(
  { sql }: Database,
  sizes: Sizes,
  say: (step: string, seconds: number) => void,
): Promise<void> {
  const numbers = derived(sizes);
  const step = async (name: string, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    say(name, (performance.now() - began) / 1000);
  };
  const session = await sql.reserve();
  const fill = async (file: string, more: Readonly<Record<string, number | string>> = {}) => {
    const text = await readFile(new URL(file, FOLDER), 'utf8');
    await session.unsafe(filled(text, { ...numbers, ...more }));
  };
  try {
    await session.unsafe(
      `set synchronous_commit = off; set work_mem = '512MB';
       set maintenance_work_mem = '512MB'; set earshot.organization = '1'; create schema bench`,
    );
    const indexes = await takeIndexes(session);
    const search = await searchOf(session);
    await session.unsafe(triggersAsleep(['posted', ...ASLEEP].slice(search.post ? 0 : 1)));
    await step('people', () => fill('1-people.sql'));
    await step('conversations', () => fill('2-conversations.sql'));
    await session.unsafe('analyze bench.places, bench.people, earshot.conversations');
    await step('memberships', () => fill('3-memberships.sql'));
    await step('words', () => fill('4-words.sql'));
    const chunk = Math.ceil(sizes.conversations / 10);
    for (let from = 1; from <= sizes.conversations; from += chunk) {
      await step('messages', () =>
        fill('5-messages.sql', { from, to: from + chunk - 1, terms: search.terms }),
      );
    }
    await step('audiences', () => fill('6-audiences.sql', { terms: search.terms }));
    await step('indexes', async () => {
      for (const definition of indexes) await session.unsafe(definition);
    });
    await step('search', () => session.unsafe(search.post ?? ''));
    await session.unsafe(triggersAsleep([]));
    await step('vacuum', () => session.unsafe('vacuum (analyze, freeze)'));
  } finally {
    session.release();
  }
}

/** What the statements name in braces. */
function derived({ seed, users, conversations, memberships, projects, messages }: Sizes) {
  const power = Math.max(20, Math.round(users / 100));
  const ordinary = users - power;
  const teams = Math.floor(ordinary / 25);
  const core = Math.round(conversations * 0.015);
  const afterTeams = teams * 40;
  const afterHalls = afterTeams + 20;
  const afterCore = afterHalls + core;
  const afterOpen = afterCore + Math.round(conversations * 0.05);
  const afterProjects = afterOpen + Math.round(conversations * 0.05);
  // A power user is in a fortieth to a tenth of all conversations, each power of two as often.
  const held = power * ((conversations * 0.075) / Math.log(4));
  const degree = Math.max(8, (memberships - held - ordinary * 39) / (ordinary * 0.98));
  return {
    ...{ seed, users, conversations, projects, ordinary, power, teams, core, degree },
    inTeams: teams * 25,
    inFifties: Math.floor(ordinary / 50) * 50,
    ...{ afterTeams, afterHalls, afterCore, afterOpen, afterProjects },
    messagesEach: messages / conversations,
    words: 60_000,
    phrases: 50_000,
  };
}

function filled(text: string, values: Readonly<Record<string, number | string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`The data is drawn from ${name}, which is not given.`);
    return String(value);
  });
}

type Session = Pick<Database['sql'], 'unsafe'>;

/** Drops the indexes that no constraint needs and gives the statements that make them again. */
async function takeIndexes(session: Session): Promise<string[]> {
  const rows = await session.unsafe<{ name: string; definition: string }[]>(
    `select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
     from pg_index i
     where i.indrelid = any ($1::text[]::regclass[])
       and not exists (select from pg_constraint c where c.conindid = i.indexrelid)`,
    [TABLES.map((table) => `earshot.${table}`)],
  );
  for (const { name } of rows) await session.unsafe(`drop index ${name}`);
  return rows.map(({ definition }) => definition);
}

/** What these triggers do is in the statements themselves, or done at once when all is there. */
const ASLEEP = ['moved', 'shared', 'ever_shared', 'start_revision', 'identity', 'set_terms'];

/** Lets these triggers sleep, and with them every foreign key; none: everything wakes. */
function triggersAsleep(names: readonly string[]): string {
  const list = names.map((name) => `'${name}'`).join(', ');
  return `
    do $$
    declare
      t record;
    begin
      for t in select distinct tgrelid::regclass as name from pg_trigger
               where tgrelid::regclass::text like 'earshot.%' loop
        execute format('alter table %s ${list === '' ? 'enable' : 'disable'} trigger all', t.name);
      end loop;
      for t in select tgrelid::regclass as name, tgname from pg_trigger
               where tgrelid::regclass::text like 'earshot.%' and not tgisinternal
                 and tgname <> all (array[${list}]::text[]) loop
        execute format('alter table %s enable trigger %I', t.name, t.tgname);
      end loop;
    end $$`;
}

/** How this schema finds messages: the terms of a body, and what posts those that are open, if it does. */
async function searchOf(session: Session): Promise<{ terms: string; post: string | undefined }> {
  const [known] = await session.unsafe<{ terms: boolean; post: boolean }[]>(
    `select to_regprocedure('earshot.search_terms(regconfig, text)') is not null as terms,
       to_regprocedure('earshot.post_conversations(bigint, bigint)') is not null as post`,
  );
  return {
    terms: known?.terms ? 'earshot.search_terms' : 'to_tsvector',
    post: known?.post ? 'select earshot.post_conversations(1, null)' : undefined,
  };
}
