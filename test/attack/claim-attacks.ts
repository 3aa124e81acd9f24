import { randomBytes } from 'node:crypto';
import { attack, signed, withClaims, type Attack, type Sound } from './forgery.ts';

const CLAIMS = [
  ...['act', 'ah', 'aud', 'dest', 'exp', 'fence', 'iat', 'iss', 'jti', 'lease', 'nbf', 'org'],
  ...['sub', 'turn'],
];
const OF_ANOTHER_TYPE: Readonly<Record<string, (value: unknown) => unknown>> = {
  null: () => null,
  true: () => true,
  'an empty text': () => '',
  'an empty object': () => ({}),
  'an empty list': () => [],
  'itself in a list': (value) => [value],
  'itself in an object': (value) => ({ value }),
  'itself as a text, or as a number': (value) =>
    typeof value === 'string' ? 7 : JSON.stringify(value),
};

const now = () => Math.floor(Date.now() / 1000);

/** The text of the claims with one of them twice: as it is, and as something else. */
function twice({ claims }: Sound, name: string, order: 'first' | 'last'): string {
  const good = `${JSON.stringify(name)}:${JSON.stringify(claims[name])}`;
  const bad = `${JSON.stringify(name)}:"another"`;
  const both = order === 'first' ? `${good},${bad}` : `${bad},${good}`;
  return JSON.stringify(claims).replace(good, both);
}

/** Each claim missing, of every other type, and twice. */
const EACH: readonly Attack[] = CLAIMS.flatMap((name) => [
  attack(
    `${name}: missing`,
    withClaims(() => ({ [name]: undefined })),
  ),
  ...Object.entries(OF_ANOTHER_TYPE).map(([type, other]) =>
    attack(
      `${name}: ${type}`,
      withClaims(({ claims }) => ({ [name]: other(claims[name]) })),
    ),
  ),
  ...(['first', 'last'] as const).map((order) =>
    attack(`${name}: twice, the right one ${order}`, (sound) =>
      signed(sound.header, twice(sound, name, order), sound.ours),
    ),
  ),
  attack(
    `${name}: spelled with a capital`,
    withClaims(({ claims }) => ({
      [name]: undefined,
      [name.toUpperCase()]: claims[name],
    })),
  ),
]);

const claim = (name: string, what: string, value: unknown, code?: Attack['code']) =>
  attack(
    `${name}: ${what}`,
    withClaims(() => ({ [name]: value })),
    code,
  );

const UUID = '0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b';
const SHAPES: readonly Attack[] = [
  claim('act', 'with another actor in it', { sub: 'assistant', act: { sub: 'another' } }),
  claim('act', 'with more than a subject', { sub: 'assistant', readers: ['ana'] }),
  claim('act', 'of a number', { sub: 7 }),
  claim('act', 'the persona itself', 'assistant'),
  claim('ah', 'in capitals', 'A'.repeat(64)),
  claim('ah', 'too short', 'a'.repeat(63)),
  claim('ah', 'with a line end', `${'a'.repeat(64)}\n`),
  claim('aud', 'of callers', 'earshot/callers'),
  claim('aud', 'of deliveries', 'earshot/deliveries'),
  claim('aud', 'ours among others', ['earshot', 'another']),
  claim('aud', 'in capitals', 'EARSHOT'),
  claim('fence', 'zero', '0'),
  claim('fence', 'negative', '-1'),
  claim('fence', 'with a zero before it', '01'),
  claim('fence', 'a fraction', '1.0'),
  claim('fence', 'in hexadecimal', '0x1'),
  claim('fence', 'of twenty digits', '9'.repeat(20)),
  claim('iss', 'another gateway', 'another-gateway'),
  claim('iss', 'ours in capitals', 'EARSHOT'),
  claim('iss', 'ours and a slash', 'earshot/'),
  claim('iss', 'ours and white space', 'earshot '),
  claim('iss', 'ours and a NUL', 'earshot\0'),
  claim('jti', 'too short', 'x'),
  claim('jti', 'too long', 'x'.repeat(44)),
  claim('jti', 'of other letters', 'é'.repeat(43)),
  claim('jti', 'with a line end', `${'x'.repeat(43)}\n`),
  claim('jti', 'that nobody knows', randomBytes(32).toString('base64url'), 'unknown_grant'),
  ...['turn', 'lease'].flatMap((name) => [
    claim(name, 'in capitals', UUID.toUpperCase()),
    claim(name, 'in braces', `{${UUID}}`),
    claim(name, 'without dashes', UUID.replaceAll('-', '')),
  ]),
];

const TIMES: readonly Attack[] = [
  attack(
    'an end that has passed',
    withClaims(() => ({ iat: now() - 90, nbf: now() - 90, exp: now() - 30 })),
    'grant_expired',
  ),
  attack(
    'an end a second past the tolerance',
    withClaims(() => ({ iat: now() - 60, nbf: now() - 60, exp: now() - 6 })),
    'grant_expired',
  ),
  attack(
    'an end before the beginning',
    withClaims(() => ({ iat: now() - 30, nbf: now() + 4, exp: now() + 3 })),
  ),
  attack(
    'issued in the future',
    withClaims(() => ({ iat: now() + 60, nbf: now(), exp: now() + 120 })),
  ),
  attack(
    'issued and beginning in the future',
    withClaims(() => ({ iat: now() + 60, nbf: now() + 60, exp: now() + 120 })),
  ),
  attack(
    'beginning in the future',
    withClaims(() => ({ nbf: now() + 60 })),
  ),
  attack(
    'beginning before it is issued',
    withClaims(({ claims }) => ({ nbf: Number(claims.iat) - 1 })),
  ),
  attack(
    'a life a second above the longest',
    withClaims(({ claims, maxLifetime }) => ({ exp: Number(claims.iat) + maxLifetime + 1 })),
  ),
  attack(
    'a life of a century',
    withClaims(() => ({ exp: 4_000_000_000 })),
  ),
  attack(
    'an end in milliseconds',
    withClaims(() => ({ exp: (now() + 60) * 1000 })),
  ),
  attack(
    'an end and a beginning in milliseconds',
    withClaims(() => ({ nbf: now() * 1000, exp: (now() + 60) * 1000 })),
  ),
  attack(
    'all times in milliseconds',
    withClaims(() => ({ iat: now() * 1000, nbf: now() * 1000, exp: (now() + 60) * 1000 })),
  ),
  ...['iat', 'nbf', 'exp'].flatMap((name) => [
    attack(
      `${name}: a fraction of a second`,
      withClaims(({ claims }) => ({ [name]: Number(claims[name]) + 0.5 })),
    ),
    attack(`${name}: larger than a number can tell apart`, (sound) =>
      signed(
        sound.header,
        JSON.stringify(sound.claims).replace(
          new RegExp(`"${name}":\\d+`),
          `"${name}":9007199254740993`,
        ),
        sound.ours,
      ),
    ),
    attack(`${name}: out of the range of numbers`, (sound) =>
      signed(
        sound.header,
        JSON.stringify(sound.claims).replace(new RegExp(`"${name}":\\d+`), `"${name}":1e999`),
        sound.ours,
      ),
    ),
    attack(`${name}: with an exponent`, (sound) =>
      signed(
        sound.header,
        JSON.stringify(sound.claims).replace(new RegExp(`"${name}":(\\d+)`), `"${name}":$1e0`),
        sound.ours,
      ),
    ),
  ]),
  claim('exp', 'zero', 0, 'grant_expired'),
  claim('exp', 'negative', -1, 'grant_expired'),
  claim('iat', 'zero', 0),
  claim('nbf', 'negative', -1),
];

const MORE: readonly Attack[] = [
  claim('cnf', 'a sender that is not looked at', { jkt: 'x'.repeat(43) }),
  claim('readers', 'named by the token', ['ana']),
  claim('scope', 'named by the token', 'organization'),
  claim('mode', 'named by the token', 'private'),
  attack('a claim of the prototype', (sound) =>
    signed(
      sound.header,
      JSON.stringify(sound.claims).replace('{', '{"__proto__":{"org":"another"},'),
      sound.ours,
    ),
  ),
];

const PAYLOADS: Readonly<Record<string, (claims: string) => string | Buffer>> = {
  'a list': (claims) => `[${claims}]`,
  'a text': (claims) => JSON.stringify(claims),
  'a number': () => '7',
  null: () => 'null',
  empty: () => '',
  'no JSON': (claims) => claims.slice(0, -1),
  'two objects': (claims) => claims + claims,
  'after white space': (claims) => ` ${claims}`,
  'before white space': (claims) => `${claims}\n`,
  'with white space in it': (claims) => claims.replace(':', ': '),
  'after a byte order mark': (claims) => `\ufeff${claims}`,
  'with a NUL after it': (claims) => `${claims}\0`,
  'with escapes that it does not need': (claims) => claims.replace('"jti"', '"\\u006ati"'),
  'not in UTF-8': (claims) =>
    Buffer.concat([
      Buffer.from(claims.slice(0, -1)),
      Buffer.from(',"x":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ]),
  'in UTF-16': (claims) => Buffer.from(claims, 'utf16le'),
};

/** Claims that no grant of ours has, each signed by our own key: as if it had leaked, or signed what it should not. */
export const CLAIM_ATTACKS: readonly Attack[] = [
  ...EACH,
  ...SHAPES,
  ...TIMES,
  ...MORE,
  ...Object.entries(PAYLOADS).map(([name, change]) =>
    attack(`claims that are ${name}`, (sound) =>
      signed(sound.header, change(JSON.stringify(sound.claims)), sound.ours),
    ),
  ),
];
