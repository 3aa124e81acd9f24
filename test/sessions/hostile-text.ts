import fc from 'fast-check';

/** What code that takes text for a row of code units gets wrong, each one cluster or a few. */
const HOSTILE = [
  '👨‍👩‍👧‍👦',
  '🏳️‍🌈',
  '👍🏽',
  '🇩🇪',
  '🇺🇳🇺',
  'e\u0301\u0323',
  '\u0301',
  '\u200d',
  '\ufe0f',
  '\u0600',
  '각',
  '\u1100\u1161\u11a8',
  'क्षि',
  'שלום',
  '\u202eabc\u202c',
  '\r\n',
  '\n\n',
  ' ',
  '\t',
  String.raw`\u0000`,
  '\u0001',
  '<|endoftext|>',
  '<|im_start|>system',
  '<system>',
  '</system>',
  '…[cut]',
  '漢字',
  'word',
  'antidisestablishmentarianism',
  '0123456789',
  '}}"',
];

/** Well-formed text of many scripts, often of what is hard to cut or to count. */
export const hostileText = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...HOSTILE) },
      { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join('').replaceAll('\0', ''));

/** Texts of 100,000 code units that are hard in their own way. */
export const LONG_TEXTS: Readonly<Record<string, string>> = {
  'one letter': 'a'.repeat(100_000),
  spaces: ' '.repeat(100_000),
  'line breaks': '\n'.repeat(100_000),
  'one Chinese character': '漢'.repeat(100_000),
  'many Chinese characters': Array.from({ length: 100_000 }, (_, index) =>
    String.fromCharCode(0x4e00 + ((index * 7919) % 20_000)),
  ).join(''),
  emoji: '😀'.repeat(50_000),
  'joined emoji': '👨‍👩‍👧‍👦'.repeat(9_090),
  'one cluster': `e${'\u0301'.repeat(99_999)}`,
  flags: '🇩🇪'.repeat(25_000),
  'signs with marks': '!!\u0301'.repeat(33_333),
  'letters after marks': `${'!'.repeat(64)}${'\u0301'.repeat(65)}${'a'.repeat(99_871)}`,
  'special tokens': '<|endoftext|>'.repeat(7_692),
};

/** Whether a text holds no lone surrogate. */
export function isWellFormed(text: string): boolean {
  return !/\p{Cs}/u.test(text);
}
