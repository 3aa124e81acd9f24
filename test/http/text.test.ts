import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { pairOf, type Pair } from './pair.ts';

// Cases 25 and 26.

let gateway: TestGateway;
let acme: Pair['acme'];
let start: Pair['start'];
let write: Pair['write'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, start, write } = await pairOf(gateway));
});

describe('text comes back as it was stored', () => {
  test.each([
    '10.5',
    'true',
    'null',
    '[1,2]',
    '{"a":1}',
    '"quoted"',
    '  spaces  ',
    '\\u0000',
    '\\',
    '\u{1F600}\u{1F468}\u200d\u{1F469}',
    'line\r\nbreak\ttab',
    '\u0001marked\u0002',
    '<script>alert(1)</script>',
    "'; drop table users; --",
    '\u202eright',
    'e\u0301',
    '%s %n',
    '{{x}} ${y}',
  ])('%j', async (body) => {
    await acme.conversation('shared', ['ana', 'ben']);
    const text = `canary ${body}`;
    await write('shared', 'm1', body);
    await write('shared', 'm2', text);
    const turn = await start();

    const read = ok(await turn.tool('read', { conversation: 'shared' }));
    expect(read.items.map((item) => item.text)).toEqual([body, text]);
    expect(await turn.search('canary')).toEqual([text]);
    const found = await turn.tool('search', { query: body });
    expect([200, 400]).toContain(found.status);
  });

  test('highlights are offsets into it, also behind what needs two units', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await write('shared', 'm1', '\u{1F600} canary & \u{1F426} canaries');
    const turn = await start();
    const { items } = ok(await turn.tool('search', { query: 'canary' }));

    const marked = items[0]?.highlights?.map(({ start, end }) => items[0]?.text.slice(start, end));
    expect(marked).toEqual(['canary', 'canaries']);
  });

  test('NUL and lone surrogates are refused, and every other control character is kept', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    const controls = Array.from({ length: 31 }, (_, code) => String.fromCharCode(code + 1)).join(
      '',
    );
    await write('shared', 'm1', controls);
    for (const body of ['a\0b', '\ud800', '\udc00x']) {
      await expect(write('shared', 'm2', body)).rejects.toThrow('400');
    }
    const { items } = ok(await (await start()).tool('read', { conversation: 'shared' }));

    expect(items.map(({ text }) => text)).toEqual([controls]);
  });

  test('what a grant is bound to is kept as arrays and objects, not as quoted text', async () => {
    await start();
    const rows = await gateway.owner`
      select jsonb_typeof(g.readers) as readers, jsonb_typeof(g.readers -> 0) as reader, pg_typeof(t.tools)::text as tools,
        cardinality(t.tools) as allowed
      from earshot.grants g join earshot.turns t on t.id = g.turn_id
      join earshot.organizations o on o.id = g.org_id where o.external_id = ${acme.name}`;
    const details = await gateway.owner`
      select distinct jsonb_typeof(detail) as detail from earshot.decisions where detail is not null`;

    expect(rows).toEqual([{ readers: 'array', reader: 'array', tools: 'text[]', allowed: 5 }]);
    expect(details).toEqual([{ detail: 'object' }]);
  });
});
