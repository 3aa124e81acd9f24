/** Longer than any token of ours; refused before it is decoded. */
const MAX_CHARACTERS = 4096;
/** A compact JWS: three segments of base64url without padding, the last of which holds 64 bytes. */
const COMPACT = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{86})$/;
const HEADER = new Set(['alg', 'kid', 'typ']);

/**
 * Whether a token is spelled as this gateway spells the tokens of a type that it signs: the one canonical encoding
 * of each segment, JSON as it is serialized here (no name twice, no white space), and a header that has the type to
 * the letter and names nothing but an algorithm and a key beside it.
 *
 * A verifier of JWTs takes more than that: other letter cases of a type, padding, spare bits at the end of a
 * signature, a name given twice. Each would be a second spelling of one token. Says nothing of a signature.
 */
export function isOurSpelling(token: string, typ: string): boolean {
  if (token.length > MAX_CHARACTERS) return false;
  const [, head = '', body = '', signature = ''] = COMPACT.exec(token) ?? [];
  if (signature === '' || !isCanonical(signature)) return false;
  const header = objectIn(head);
  return (
    header !== undefined &&
    Object.keys(header).every((name) => HEADER.has(name)) &&
    header.typ === typ &&
    objectIn(body) !== undefined
  );
}

/** The JSON object of a segment, if the segment is the one spelling of it. */
function objectIn(segment: string): Readonly<Record<string, unknown>> | undefined {
  if (!isCanonical(segment)) return undefined;
  const text = Buffer.from(segment, 'base64url').toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject && JSON.stringify(value) === text
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}

function isCanonical(segment: string): boolean {
  return Buffer.from(segment, 'base64url').toString('base64url') === segment;
}
