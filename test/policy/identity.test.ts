import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareUtf8, externalId, parseExternalId } from '../../policy/identity.ts';

describe('an id from outside', () => {
  test('is 1 to 128 code points, however many units they take', () => {
    expect(parseExternalId('a'.repeat(128)).ok).toBe(true);
    expect(parseExternalId('\u{1f600}'.repeat(128)).ok).toBe(true);
    expect(parseExternalId('')).toEqual({ ok: false, fault: 'empty' });
    expect(parseExternalId('a'.repeat(129))).toEqual({ ok: false, fault: 'too_long' });
    expect(parseExternalId('\u{1f600}'.repeat(129))).toEqual({ ok: false, fault: 'too_long' });
  });

  test('is in Normalization Form C, so that one identity has one spelling', () => {
    expect(parseExternalId('\u00e9').ok).toBe(true);
    expect(parseExternalId('e\u0301')).toEqual({ ok: false, fault: 'not_nfc' });
  });

  test('never turns into another id that folds to it', () => {
    expect(parseExternalId('\u212a')).toEqual({ ok: false, fault: 'not_nfc' });
    expect(externalId('k')).not.toBe(externalId('K'));
  });

  test.each(['\0', 'a\tb', 'a\n', '\u007f', '\u0085'])('holds no control character: %j', (text) => {
    expect(parseExternalId(text)).toEqual({ ok: false, fault: 'control_character' });
  });

  test('holds whole surrogate pairs only', () => {
    expect(parseExternalId('\ud83d\ude00').ok).toBe(true);
    expect(parseExternalId('\ud83d')).toEqual({ ok: false, fault: 'lone_surrogate' });
    expect(parseExternalId('\ude00\ud83d')).toEqual({ ok: false, fault: 'lone_surrogate' });
  });

  test('is refused rather than repaired, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        const parsed = parseExternalId(text);
        if (parsed.ok) expect(parsed.id).toBe(text);
      }),
    );
  });

  test('is vouched for by the program only if it is one', () => {
    expect(externalId('anna')).toBe('anna');
    expect(() => externalId('')).toThrow(RangeError);
  });
});

describe('the order of ids', () => {
  test('is that of their UTF-8 bytes, also above the surrogates', () => {
    expect(compareUtf8('\uff5e', '\u{1f600}')).toBeLessThan(0);
    expect(['\uff5e', '\u{1f600}'].sort()).toEqual(['\u{1f600}', '\uff5e']);
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (a, b) => {
        expect(Math.sign(compareUtf8(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
    );
  });
});
