import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { createApp } from '../gateway/app.ts';
import { readConfig } from '../gateway/config.ts';
import { REFUSALS } from '../policy/refusal.ts';
import { openDatabase } from '../sql/database.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'].concat(
  readdirMarkdown('docs'),
);

/** The app over a database that is never asked. */
async function openApiDocument(): Promise<{ paths: Record<string, unknown> }> {
  const database = openDatabase('postgresql://nobody@127.0.0.1:1/none');
  const keys = {
    signing: { kid: '', key: undefined as never },
    verifying: () => undefined,
    cursorSecret: new Uint8Array(),
    jwks: { keys: [] },
  };
  const app = createApp({ database, keys, config: readConfig({}) });
  const answer = await app.request('/openapi.json');
  return (await answer.json()) as { paths: Record<string, unknown> };
}

it('lists every refusal as the code has it', async () => {
  const rows = Object.entries(REFUSALS).map(
    ([code, { status, sentence, recovery, page }]) =>
      `| \`${code}\` | ${status.toString()} | ${sentence} | ${recovery} | [${page}](${page}.md) |`,
  );
  const text = [
    '# Refusals',
    '',
    'Generated from `policy/refusal.ts`. `recovery` says what to do next.',
    '',
    '| code | status | in a sentence | recovery | page |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
  await expect(text).toMatchFileSnapshot(join(root, 'docs/refusals.md'));
});

it('keeps the OpenAPI document that the app serves', async () => {
  const text = `${JSON.stringify(await openApiDocument(), null, 2)}\n`;
  await expect(text).toMatchFileSnapshot(join(root, 'docs/openapi.json'));
});

it('mentions every route', async () => {
  const text = pages.map(read).join('\n');
  const { paths } = await openApiDocument();
  const missing = Object.keys(paths).filter((path) => {
    const last =
      path
        .split('/')
        .filter((part) => !part.startsWith('{'))
        .at(-1) ?? '';
    return !text.includes(last);
  });
  expect(missing).toEqual([]);
});

it('names every setting', () => {
  const text = read('docs/operations.md');
  expect(Object.keys(readConfig({})).filter((key) => !text.includes(`\`${key}\``))).toEqual([]);
});

it.each(pages)('has no link that leads nowhere: %s', (page) => {
  const links = [...read(page).matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)].map(
    (match) => match[1] ?? '',
  );
  expect(links.filter((link) => !existsSync(join(root, dirname(page), link)))).toEqual([]);
});

function readdirMarkdown(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))
    .sort();
}
