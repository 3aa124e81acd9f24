import { attack, b64, resigned, segmentsOf, signed, type Attack } from './forgery.ts';

const SEGMENTS = ['header', 'claims', 'signature'] as const;

/** The token with one of its segments changed. */
const segment =
  (index: number, change: (text: string) => string): Attack['forge'] =>
  ({ token }) =>
    segmentsOf(token)
      .map((text, i) => (i === index ? change(text) : text))
      .join('.');

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** The other spellings of a last letter whose lowest bits say nothing. */
const SPARE_BITS: readonly Attack[] = Array.from({ length: 15 }, (_, i) =>
  attack(
    `the signature with spare bits at its end: ${i + 1}`,
    segment(2, (text) => {
      const last = ALPHABET.indexOf(text.at(-1) ?? '');
      return text.slice(0, -1) + (ALPHABET[last ^ (i + 1)] ?? '');
    }),
  ),
);

const EACH_SEGMENT: readonly Attack[] = SEGMENTS.flatMap((name, index) =>
  Object.entries({
    'without its last letter': (text: string) => text.slice(0, -1),
    'without its first letter': (text: string) => text.slice(1),
    'cut in half': (text: string) => text.slice(0, text.length / 2),
    empty: () => '',
    'padded by one': (text: string) => `${text}=`,
    'padded by two': (text: string) => `${text}==`,
    'with a letter more': (text: string) => `${text}A`,
    'with two letters more': (text: string) => `${text}AA`,
    'with a dot in it': (text: string) => `${text.slice(0, 9)}.${text.slice(9)}`,
    'in small letters': (text: string) => text.toLowerCase(),
    'encoded twice': (text: string) => b64(text),
    'in hexadecimal': (text: string) => Buffer.from(text, 'base64url').toString('hex'),
    'escaped for an address': (text: string) =>
      `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`,
  }).map(([what, change]) => attack(`the ${name} ${what}`, segment(index, change))),
);

/** Segments of two sound tokens. Their headers are the same. */
const MIXED: readonly Attack[] = [1, 2].map((index) =>
  attack(`the ${SEGMENTS[index] ?? ''} of another token`, (sound) =>
    segment(index, () => segmentsOf(sound.other)[index] ?? '')(sound),
  ),
);

/** In an alphabet that decoders take for the same. The claims get a letter that differs, so that it is another text. */
const OTHER_ALPHABET = attack('in the alphabet of plain base64', (sound) => {
  for (let pad = 0; ; pad++) {
    const token = signed(
      sound.header,
      { ...sound.claims, sub: `~${'?'.repeat(pad)}ÿ` },
      sound.ours,
    );
    const plain = token.replaceAll('-', '+').replaceAll('_', '/');
    if (plain !== token) return plain;
  }
});

const ORDERS = [
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
];

const WHOLE: Readonly<Record<string, (token: string) => string>> = {
  'empty but for its dots': () => '..',
  'one word': () => 'token',
  'of two segments': (token) => segmentsOf(token).slice(0, 2).join('.'),
  'of four segments': (token) => `${token}.${segmentsOf(token)[2]}`,
  'of five segments, as one that is encrypted': (token) => `${token}.e30.e30`,
  twice: (token) => `${token}.${token}`,
  'after a dot': (token) => `.${token}`,
  'before a dot': (token) => `${token}.`,
  'with slashes for dots': (token) => token.replaceAll('.', '/'),
  'as a JWS in JSON': (token) => {
    const [head, body, signature] = segmentsOf(token);
    return JSON.stringify({ protected: head, payload: body, signature });
  },
  'with white space before it': (token) => ` ${token}`,
  'with white space after it': (token) => `${token} `,
  'with white space in it': (token) => token.replace('.', ' .'),
  'with a tab in it': (token) => token.replace('.', '\t.'),
  'in quotes': (token) => `"${token}"`,
  'with a comma after it': (token) => `${token},`,
  'with a letter of another script': (token) => token.replace('e', 'е'),
  'with a full-width dot': (token) => token.replace('.', '．'),
  'with a zero-width joiner': (token) => token.replace('.', '\u200d.'),
  'after a byte order mark': (token) => `\ufeff${token}`,
  'longer than any': (token) => token + 'A'.repeat(5_000),
};

/** The order of the base point of the curve (RFC 8032): adding it to S gives a second signature that holds without a check. */
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const littleEndian = (bytes: Buffer) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
const bytesOf = (value: bigint) =>
  Buffer.from(value.toString(16).padStart(64, '0').slice(-64), 'hex').reverse();
const withS = (change: (s: bigint) => bigint) =>
  resigned((signature) =>
    Buffer.concat([
      signature.subarray(0, 32),
      bytesOf(change(littleEndian(signature.subarray(32)))),
    ]),
  );

/** The points of small order and their other encodings. */
const SMALL_ORDER = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000080',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
];

const SIGNATURES: readonly Attack[] = [
  ...[1n, 2n, 3n, 7n].map((times) =>
    attack(
      `S and ${times.toString()} times the order of the curve`,
      withS((s) => s + times * L),
    ),
  ),
  attack(
    'S negated',
    withS((s) => L - s),
  ),
  attack(
    'S zero',
    withS(() => 0n),
  ),
  attack(
    'S the order of the curve',
    withS(() => L),
  ),
  ...SMALL_ORDER.flatMap((point) => [
    attack(
      `R of small order, S zero: ${point.slice(0, 6)}…${point.slice(-2)}`,
      resigned(() => Buffer.concat([Buffer.from(point, 'hex'), Buffer.alloc(32)])),
    ),
    attack(
      `R of small order, S as it was: ${point.slice(0, 6)}…${point.slice(-2)}`,
      resigned((signature) => Buffer.concat([Buffer.from(point, 'hex'), signature.subarray(32)])),
    ),
  ]),
  attack(
    'zeros',
    resigned(() => Buffer.alloc(64)),
  ),
  attack(
    'ones',
    resigned(() => Buffer.alloc(64, 255)),
  ),
  attack(
    'R and S the other way round',
    resigned((signature) => Buffer.concat([signature.subarray(32), signature.subarray(0, 32)])),
  ),
  ...[0, 31, 32, 62, 63].flatMap((at) =>
    [1, 128].map((bit) =>
      attack(
        `a bit turned: byte ${at}, ${bit}`,
        resigned((signature) => {
          const turned = Buffer.from(signature);
          turned[at] = (turned[at] ?? 0) ^ bit;
          return turned;
        }),
      ),
    ),
  ),
  attack(
    'a byte before it',
    resigned((signature) => Buffer.concat([Buffer.alloc(1), signature])),
  ),
  attack(
    'a byte after it',
    resigned((signature) => Buffer.concat([signature, Buffer.alloc(1)])),
  ),
  attack(
    'a byte less',
    resigned((signature) => signature.subarray(0, 63)),
  ),
  attack(
    'twice',
    resigned((signature) => Buffer.concat([signature, signature])),
  ),
].map(({ name, ...rest }) => ({ name: `a signature: ${name}`, ...rest }));

/** Tokens of ours of another type, as they are. */
const OTHER_TYPES: readonly Attack[] = [
  attack('a token of a caller', ({ caller }) => caller),
  attack('a clearance', ({ clearance }) => clearance),
  attack(
    'the claims of a caller under the type of a grant',
    (sound) => `${segmentsOf(sound.token)[0]}.${segmentsOf(sound.caller).slice(1).join('.')}`,
  ),
  attack(
    'the claims of a clearance under the type of a grant',
    (sound) => `${segmentsOf(sound.token)[0]}.${segmentsOf(sound.clearance).slice(1).join('.')}`,
  ),
];

/** Other spellings of a sound token, other signatures under it, and sound tokens of other types. */
export const SPELLING_ATTACKS: readonly Attack[] = [
  ...EACH_SEGMENT,
  ...MIXED,
  ...SPARE_BITS,
  OTHER_ALPHABET,
  ...ORDERS.map((order) =>
    attack(`the segments in the order ${order.join()}`, ({ token }) =>
      order.map((i) => segmentsOf(token)[i]).join('.'),
    ),
  ),
  ...Object.entries(WHOLE).map(([name, change]) =>
    attack(`a token ${name}`, ({ token }) => change(token)),
  ),
  ...SIGNATURES,
  ...OTHER_TYPES,
];
