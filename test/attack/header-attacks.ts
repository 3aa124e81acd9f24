import { createHmac, sign, type KeyObject } from 'node:crypto';
import {
  attack,
  b64,
  publicKeyOf,
  segmentsOf,
  signed,
  THEIRS,
  withHeader,
  type Attack,
  type Sound,
} from './forgery.ts';

const input = ({ header, claims }: Sound, more: object) =>
  `${b64({ ...header, ...more })}.${b64(claims)}`;

/** Every text that a verifier could take for the secret of an HMAC when it is given a public key. */
const ENCODINGS: Readonly<Record<string, (key: KeyObject) => Buffer | string>> = {
  'the bytes of the key': (key) => Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url'),
  'the key in base64url': (key) => key.export({ format: 'jwk' }).x ?? '',
  'the key in hexadecimal': (key) =>
    Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url').toString('hex'),
  'the key as a JWK': (key) => JSON.stringify(key.export({ format: 'jwk' })),
  'the key in DER': (key) => key.export({ format: 'der', type: 'spki' }),
  'the key in PEM': (key) => key.export({ format: 'pem', type: 'spki' }),
  'the key in PEM, without its last line end': (key) =>
    key.export({ format: 'pem', type: 'spki' }).toString().trim(),
  nothing: () => '',
};

const ALGORITHMS: readonly Attack[] = [
  ...['none', 'None', 'NONE', 'nOnE', ''].flatMap((alg) => [
    attack(`alg ${JSON.stringify(alg)}: no signature`, (sound) => `${input(sound, { alg })}.`),
    attack(
      `alg ${JSON.stringify(alg)}: the old signature`,
      (sound) => `${input(sound, { alg })}.${segmentsOf(sound.token)[2]}`,
    ),
    attack(
      `alg ${JSON.stringify(alg)}: a signature of ours`,
      withHeader(() => ({ alg })),
    ),
  ]),
  ...(['256', '384', '512'] as const).flatMap((size) =>
    Object.entries(ENCODINGS).map(([name, secret]) =>
      attack(`alg HS${size}: an HMAC with ${name}`, (sound) => {
        const text = input(sound, { alg: `HS${size}` });
        const hmac = createHmac(`sha${size}`, secret(publicKeyOf(sound.ours)));
        return `${text}.${b64(hmac.update(text).digest())}`;
      }),
    ),
  ),
  attack('alg EdDSA: an HMAC with the key in PEM', (sound) => {
    const text = input(sound, {});
    const pem = ENCODINGS['the key in PEM']?.(publicKeyOf(sound.ours)) ?? '';
    return `${text}.${b64(createHmac('sha512', pem).update(text).digest())}`;
  }),
  attack('alg RS256: a key of the attacker', (sound) => {
    const text = input(sound, { alg: 'RS256' });
    return `${text}.${b64(sign('sha256', Buffer.from(text), THEIRS.rsa))}`;
  }),
  attack('alg ES256: a key of the attacker', (sound) => {
    const text = input(sound, { alg: 'ES256' });
    const key = { key: THEIRS.p256, dsaEncoding: 'ieee-p1363' as const };
    return `${text}.${b64(sign('sha256', Buffer.from(text), key))}`;
  }),
  attack('alg EdDSA: a key of the attacker', (sound) =>
    signed(sound.header, sound.claims, THEIRS.ed25519),
  ),
  ...[
    ...['eddsa', 'EDDSA', 'EdDSA ', 'Ed25519', 'Ed448', 'RS256', 'ES256', 'HS256', 'dir'],
    7,
    null,
    ['EdDSA'],
    {},
  ].map((alg) =>
    attack(
      `alg ${JSON.stringify(alg)}: a signature of ours`,
      withHeader(() => ({ alg })),
    ),
  ),
  attack(
    'alg missing: a signature of ours',
    withHeader(() => ({ alg: undefined })),
  ),
];

/** A value as it stands in a title. */
function nameOf(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 50 ? `of ${text.length - 2} letters` : text;
}

const KEYS: readonly Attack[] = [
  ...[
    ...['nobody', '', '/dev/null', '../../../../dev/null', '..\\..\\keys.json', 'file:///dev/null'],
    ...[
      "' or '1'='1",
      "x'; select pg_sleep(9) --",
      '__proto__',
      'constructor',
      'toString',
      '*',
      '0',
    ],
    ...['x'.repeat(1_000), 'x'.repeat(10_000)],
    ...[7, null, true, {}, []],
  ].map((kid) =>
    attack(
      `kid ${nameOf(kid)}: a signature of ours`,
      withHeader(() => ({ kid })),
    ),
  ),
  attack(
    'kid missing: a signature of ours',
    withHeader(() => ({ kid: undefined })),
  ),
  attack(
    'kid an address: a signature of ours',
    withHeader(({ listener }) => ({ kid: listener })),
  ),
  attack(
    'kid in a list: a signature of ours',
    withHeader(({ header }) => ({ kid: [header.kid] })),
  ),
  attack(
    'kid with a NUL: a signature of ours',
    withHeader(({ header }) => ({ kid: `${String(header.kid)}\0` })),
  ),
  attack(
    'kid padded: a signature of ours',
    withHeader(({ header }) => ({ kid: `${String(header.kid)}=` })),
  ),
];

/** Parameters by which a header would bring a key of its own. */
const BROUGHT: Readonly<Record<string, (sound: Sound) => unknown>> = {
  jwk: () => publicKeyOf(THEIRS.ed25519).export({ format: 'jwk' }),
  jku: ({ listener }) => `${listener}/jwks.json`,
  x5u: ({ listener }) => `${listener}/certificate.pem`,
  x5c: () => [b64(publicKeyOf(THEIRS.ed25519).export({ format: 'der', type: 'spki' }))],
  x5t: () => 'x'.repeat(27),
  'x5t#S256': () => 'x'.repeat(43),
};
const KIDS: Readonly<Record<string, (sound: Sound) => unknown>> = {
  'our kid': ({ header }) => header.kid,
  'a kid of theirs': () => 'mine',
  'no kid': () => undefined,
};

const BRINGING: readonly Attack[] = Object.entries(BROUGHT).flatMap(([name, value]) => [
  ...Object.entries(KIDS).map(([which, kid]) =>
    attack(`${name} with ${which}: a signature of the attacker`, (sound) =>
      signed(
        { ...sound.header, kid: kid(sound), [name]: value(sound) },
        sound.claims,
        THEIRS.ed25519,
      ),
    ),
  ),
  attack(
    `${name}: a signature of ours`,
    withHeader((sound) => ({ [name]: value(sound) })),
  ),
]);

const PARAMETERS: readonly Attack[] = [
  ...[['exp'], ['x'], ['b64'], [], 'exp', null].map((crit) =>
    attack(
      `crit ${JSON.stringify(crit)}`,
      withHeader(() => ({ crit, x: 1 })),
    ),
  ),
  attack('crit b64: a payload that is not encoded', (sound) => {
    const head = b64({ ...sound.header, crit: ['b64'], b64: false });
    const text = `${head}.${JSON.stringify(sound.claims)}`;
    return `${text}.${b64(sign(null, Buffer.from(text), sound.ours))}`;
  }),
  ...Object.entries({
    b64: true,
    zip: 'DEF',
    cty: 'JWT',
    enc: 'A128GCM',
    iss: 'earshot',
    nonce: 'x',
  }).map(([name, value]) =>
    attack(
      `a parameter of another kind: ${name}`,
      withHeader(() => ({ [name]: value })),
    ),
  ),
];

const TYPES: readonly Attack[] = [
  ...[
    ...['JWT', 'at+jwt', 'earshot-caller+jwt', 'earshot-clearance+jwt', 'earshot-cursor', ''],
    ...[
      'EARSHOT-GRANT+JWT',
      'Earshot-Grant+JWT',
      'application/earshot-grant+jwt',
      ' earshot-grant+jwt',
    ],
    ...['earshot-grant+jwt\0', 'earshot-grant+jwt;x=y', 'earshot-grant'],
    ...[7, null, ['earshot-grant+jwt'], {}],
  ].map((typ) =>
    attack(
      `typ ${JSON.stringify(typ)}: a signature of ours`,
      withHeader(() => ({ typ })),
    ),
  ),
  attack(
    'typ missing: a signature of ours',
    withHeader(() => ({ typ: undefined })),
  ),
];

const HEADERS: Readonly<Record<string, (header: string) => string>> = {
  'a list': (header) => `[${header}]`,
  null: () => 'null',
  empty: () => '',
  'no JSON': (header) => header.slice(0, -1),
  'after white space': (header) => ` ${header}`,
  'with white space in it': (header) => header.replace(':', ': '),
  'with alg twice, ours last': (header) => header.replace('{', '{"alg":"none",'),
  'with alg twice, ours first': (header) => header.replace('}', ',"alg":"none"}'),
  'with kid twice, ours last': (header) => header.replace('{', '{"kid":"mine",'),
  'with typ twice, ours last': (header) => header.replace('{', '{"typ":"JWT",'),
  'with a parameter of the prototype': (header) =>
    header.replace('{', '{"__proto__":{"alg":"none"},'),
};

/** Headers that choose what they may not choose; those signed by our own key differ in nothing else. */
export const HEADER_ATTACKS: readonly Attack[] = [
  ...ALGORITHMS,
  ...KEYS,
  ...BRINGING,
  ...PARAMETERS,
  ...TYPES,
  ...Object.entries(HEADERS).map(([name, change]) =>
    attack(`a header that is ${name}`, (sound) =>
      signed(change(JSON.stringify(sound.header)), sound.claims, sound.ours),
    ),
  ),
];
