import { expect } from 'vitest';
import type { Sql } from '../../sql/database.ts';
import type { TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';

/** An organization in which what is open to it can be looked at. */
export interface OpenHouse {
  readonly acme: TestOrganization;
  readonly org: string;
  /** Puts a message by ana, long after every join, unless it says otherwise. */
  readonly write: (
    conversation: string,
    id: string,
    body: string,
    more?: object,
  ) => Promise<{ outcome?: string }>;
  readonly conversation: (id: string, visibility: string, more?: object) => Promise<void>;
  /** The different terms that are kept of a conversation. */
  readonly termsOf: (conversation: string) => Promise<string[]>;
  /** Compares all that is kept with what is made from nothing. */
  readonly expectWhole: () => Promise<void>;
}

export async function openHouse(gateway: TestGateway): Promise<OpenHouse> {
  const { owner } = gateway;
  const acme = await gateway.organization();
  const [row] = await owner<{ id: string }[]>`
    select id from earshot.organizations where external_id = ${acme.name}`;
  const org = row?.id ?? '';
  await acme.users('ana', 'ben', 'cleo');
  return {
    acme,
    org,
    write: (conversation, id, body, more = {}) =>
      acme.put(`conversations/${conversation}/messages/${id}`, {
        ...{ author: { user: 'ana' }, body, sentAt: '2050-01-01T00:00:00Z' },
        ...more,
      }),
    conversation: (id, visibility, more = {}) =>
      acme.facts({ fact: 'conversation', id, kind: 'group', visibility, ...more }),
    async termsOf(name) {
      const rows = await owner<{ term: string }[]>`
        select distinct p.term from earshot.open_postings p
        join earshot.conversations c on c.org_id = p.org_id and c.id = p.conversation_id
        where p.org_id = ${org} and c.external_id = ${name} order by p.term`;
      return rows.map(({ term }) => term);
    },
    async expectWhole() {
      const sql = await owner.reserve();
      try {
        await sql`begin`;
        const kept = await tables(sql, org);
        await sql`select earshot.post_conversations(${org}, null)`;
        const made = await tables(sql, org);
        await sql`rollback`;
        expect({ kept }).toEqual({ kept: made });
      } finally {
        sql.release();
      }
    },
  };
}

async function tables(sql: Sql, org: string) {
  return {
    postings: await sql`
      select * from earshot.open_postings where org_id = ${org} order by term, conversation_id, seq`,
    // A conversation whose messages are all gone has none, whether it says so or not.
    statistics: await sql`
      select * from earshot.open_statistics where org_id = ${org} and (messages, terms) <> (0, 0)
      order by conversation_id`,
  };
}

/** The messages of a conversation, for a statement in the organization that was entered. */
export function messagesOf(conversation: string): string {
  return `org_id = earshot.current_organization() and conversation_id = (select c.id from earshot.conversations c
    where c.org_id = earshot.current_organization() and c.external_id = '${conversation}')`;
}

/** Appends a message by ana by a plain statement, whatever the head is. */
export function insertInto(conversation: string, seq: number, body: string): string {
  return `
    insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, body, sent_at)
    select c.org_id, c.id, ${seq}, 'raw-${seq}', 'message', u.id, '${body}', now()
    from earshot.conversations c join earshot.users u on u.org_id = c.org_id and u.external_id = 'ana'
    where c.org_id = earshot.current_organization() and c.external_id = '${conversation}'`;
}
