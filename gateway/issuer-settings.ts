import { resolve } from 'node:path';
import { z } from 'zod';
import { parseExternalId } from '../policy/identity.ts';

/** What may sign a token of another issuer: asymmetric, every one. There is no `none` and no HMAC to choose. */
const ALGORITHMS = [
  ...['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512'],
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
] as const;

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

const keysUrl = z
  .string()
  .refine(
    isKeysUrl,
    'must be an https:// URL without a login, or http:// on the loopback interface',
  );

const id = z.string().refine((text) => parseExternalId(text).ok, 'must be an id');

/** An issuer that is trusted for what is registered for it, and for nothing else. */
const IssuerSettings = z
  .strictObject({
    /** The `iss` of its tokens, to the letter. */
    issuer: z.string().min(1).max(500),
    /** The `aud` by which its tokens are for this gateway. */
    audience: z.string().min(1).max(500),
    /** Where its public keys are: one of the two. */
    url: keysUrl.optional(),
    file: z
      .string()
      .min(1)
      .transform((path) => resolve(path))
      .optional(),
    algorithms: z.array(z.enum(ALGORITHMS)).min(1),
    /** The `typ` of its tokens, where it has one: `at+jwt` (RFC 9068) keeps id tokens out. */
    type: z.string().min(1).max(100).optional(),
    /** Whose people it proves, and which claim is the id of one there. It proves nobody unless given. */
    people: z
      .strictObject({
        organizations: z.array(id).min(1),
        claim: z.string().min(1).max(200).default('sub'),
      })
      .optional(),
  })
  .refine(({ url, file }) => (url === undefined) !== (file === undefined), {
    path: ['url'],
    error: 'is needed, or file, and not both',
  });
export type IssuerSettings = z.infer<typeof IssuerSettings>;

export const IssuerList = z
  .array(IssuerSettings)
  .refine((list) => new Set(list.map(({ issuer }) => issuer)).size === list.length, {
    error: 'an issuer is listed twice',
  });

function isKeysUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== '' || password !== '') return false;
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname));
}
