/**
 * External ids: the only names that cross the boundary.
 *
 * An id is 1 to 128 Unicode code points in Normalization Form C, without control characters and
 * without lone surrogates. Anything else is refused, never repaired: two spellings of one id would
 * be two identities in one place and one in another.
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type ExternalId = Branded<'ExternalId'>;

export type IdFault = 'empty' | 'too_long' | 'not_nfc' | 'control_character' | 'lone_surrogate';
export type ParsedId = { ok: true; id: ExternalId } | { ok: false; fault: IdFault };

export const MAX_ID_CHARACTERS = 128;

/** Parses an id from outside. Total: every string gives either an id or the first rule it breaks. */
export function parseExternalId(text: string): ParsedId {
  if (text.length === 0) return { ok: false, fault: 'empty' };
  // A code point takes at most two UTF-16 units, so this bound refuses huge input before it is walked.
  if (text.length > 2 * MAX_ID_CHARACTERS) return { ok: false, fault: 'too_long' };
  if (/\p{Cs}/u.test(text)) return { ok: false, fault: 'lone_surrogate' };
  if (/\p{Cc}/u.test(text)) return { ok: false, fault: 'control_character' };
  if (Array.from(text).length > MAX_ID_CHARACTERS) return { ok: false, fault: 'too_long' };
  if (text.normalize('NFC') !== text) return { ok: false, fault: 'not_nfc' };
  return { ok: true, id: text as ExternalId };
}

/** {@link parseExternalId} for text that the program itself vouches for; throws on anything else. */
export function externalId(text: string): ExternalId {
  const parsed = parseExternalId(text);
  if (!parsed.ok) throw new RangeError(`not an external id: ${parsed.fault}`);
  return parsed.id;
}

/**
 * Orders two well-formed strings by their UTF-8 bytes, as PostgreSQL's collation "C" does.
 * JavaScript's own `<` compares UTF-16 units and differs above U+FFFF.
 */
export function compareUtf8(left: string, right: string): number {
  const a = Array.from(left);
  const b = Array.from(right);
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = (a[i]?.codePointAt(0) ?? 0) - (b[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
