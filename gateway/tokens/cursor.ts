import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';

/** Where a page ended. Every value in it was shown on that page. */
const Position = z.strictObject({
  score: z.string().optional(),
  seq: z.string().optional(),
  conversation: z.string().optional(),
});
export type Position = z.infer<typeof Position>;

const Content = z.strictObject({ grant: z.string(), query: z.string(), after: Position });

/** The digest of what was asked, without its cursor: a cursor fits this question and no other. */
export function queryDigest(tool: string, args: Readonly<Record<string, unknown>>): string {
  const { cursor: _cursor, ...asked } = args;
  const sorted = Object.entries(asked).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([tool, sorted]))
    .digest('hex');
}

/** Signs a cursor (HMAC-SHA-256, RFC 2104), bound to the grant and to the question. */
export async function signCursor(
  keys: Keys,
  grant: string,
  query: string,
  after: Position,
): Promise<string> {
  const { kid, cursorSecret } = (await keys.current()).signing;
  const content = Buffer.from(JSON.stringify({ grant, query, after })).toString('base64url');
  return `${kid}.${content}.${macOf(cursorSecret, kid, content)}`;
}

/** Opens a cursor. One of another grant, of another question, or not ours is `invalid_input`. */
export async function openCursor(
  keys: Keys,
  grant: string,
  query: string,
  cursor: string,
): Promise<{ ok: true; after: Position } | Refusal> {
  const refused = refuse('invalid_input', {
    detail: 'The cursor does not belong to this request.',
  });
  const [kid = '', content = '', mac = '', ...more] = cursor.split('.');
  const key = more.length === 0 ? await keys.find(kid) : undefined;
  if (key === undefined || !isEqual(mac, macOf(key.cursorSecret, kid, content))) return refused;
  const opened = Content.safeParse(JSON.parse(Buffer.from(content, 'base64url').toString('utf8')));
  const fits = opened.success && opened.data.grant === grant && opened.data.query === query;
  return fits ? { ok: true, after: opened.data.after } : refused;
}

/** In the process and at once: a job for another thread would take longer than the sum itself. */
function macOf(secret: Uint8Array, kid: string, content: string): string {
  return createHmac('sha256', secret)
    .update(`earshot-cursor.${kid}.${content}`)
    .digest('base64url');
}

/** Compared in a time that tells nothing of where they differ. */
function isEqual(given: string, right: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}
