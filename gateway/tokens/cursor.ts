import { createHash } from 'node:crypto';
import { compactVerify, CompactSign, errors } from 'jose';
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

/** Signs a cursor (HMAC, RFC 7515), bound to the grant and to the question. */
export async function signCursor(
  keys: Keys,
  grant: string,
  query: string,
  after: Position,
): Promise<string> {
  const { signing } = await keys.current();
  const content = Buffer.from(JSON.stringify({ grant, query, after }));
  return new CompactSign(content)
    .setProtectedHeader({ alg: 'HS256', typ: 'earshot-cursor', kid: signing.kid })
    .sign(signing.cursorSecret);
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
  try {
    const secretOf = async ({ kid }: { kid?: string }) => {
      const key = kid === undefined ? undefined : await keys.find(kid);
      if (key === undefined) throw new errors.JOSEError('unknown key');
      return key.cursorSecret;
    };
    const { payload } = await compactVerify(cursor, secretOf, { algorithms: ['HS256'] });
    const content = Content.safeParse(JSON.parse(Buffer.from(payload).toString('utf8')));
    const fits = content.success && content.data.grant === grant && content.data.query === query;
    return fits ? { ok: true, after: content.data.after } : refused;
  } catch (error) {
    if (
      error instanceof errors.JOSEError ||
      error instanceof TypeError ||
      error instanceof SyntaxError
    ) {
      return refused;
    }
    throw error;
  }
}
