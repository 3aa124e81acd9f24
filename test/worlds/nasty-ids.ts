import fc from 'fast-check';
import { externalId, parseExternalId, type ExternalId } from '../../policy/identity.ts';

/**
 * Ids that have broken systems like this one: prefixes and suffixes of each other, delimiters, names of
 * classes, pairs that fold or sort together under some locale, numbers that round, and text that other
 * layers give a meaning to.
 */
export const NASTY_IDS: readonly ExternalId[] = [
  ...['a', 'ab', 'b', 'a|b', 'b|c', 'c', 'a,b', 'a:b', 'a\u200db', 'a b', 'a ', ' a', ' '],
  ...['A', 'k', 'K', 'ss', '\u00df', 'i', 'I', '\u0131', '\u0130', '\u00e9', 'e', 'z', '\u00e5'],
  ...['\uff5e', '\u{1f600}', '\u{10ffff}', '\ufffd', '\ufeff', '\u202e', '\u2028', '\u00a0'],
  ...['\u{1f468}\u200d\u{1f469}', '\u{1f468}', '\u0661', '\u{20000}', '\ue000', '\ud7ff'],
  ...['0', '00', '1', '-1', '9007199254740992', '9007199254740993', '9223372036854775807'],
  ...['user', 'user:a', 'class:organization', 'class:project:a', 'project:a', 'agent:a', '*', '%'],
  ...['null', 'undefined', '__proto__', 'constructor', 'default', "'", '"', '\\', '{}', '[]', '--'],
  ...["'; drop table earshot.users; --", '$1', '\\u0000', '../a', 'a/b', '\u{1d518}'.repeat(128)],
].map(externalId);

/** Ids of which most come from {@link NASTY_IDS}, so that the kinds of things in a world share names. */
export const nastyId: fc.Arbitrary<ExternalId> = fc.oneof(
  { arbitrary: fc.constantFrom(...NASTY_IDS), weight: 6 },
  {
    arbitrary: fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 4 })
      .map((text) => text.normalize('NFC'))
      .filter((text) => parseExternalId(text).ok)
      .map(externalId),
    weight: 1,
  },
);
