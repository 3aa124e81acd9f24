import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createApp } from '../gateway/app.ts';
import { readConfig, type Config } from '../gateway/config.ts';
import { RECOVERIES, REFUSALS, type RefusalCode } from '../policy/refusal.ts';
import { compileSettings } from '../sessions/compile/compile-settings.ts';
import { openDatabase } from '../sql/database.ts';
import { withSection } from './bench/report.ts';
import { raceTables } from './races/delivery-race-table.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...filesOf('docs', '.md'),
];
const codes = Object.keys(REFUSALS) as RefusalCode[];

describe('the list of refusals', () => {
  it('says of every code what the code has', async () => {
    const rows = codes.map((code) => {
      const { status, sentence, recovery, page } = REFUSALS[code];
      return `| \`${code}\` | ${status.toString()} | ${sentence} | ${recovery} | [${page}](${page}.md) |`;
    });
    const unused = codes.filter((code) => !isGiven(code)).map((code) => `\`${code}\``);
    const text = [
      '# Refusals',
      '',
      'Generated from `policy/refusal.ts`. `recovery` says what to do next; on the wire a refusal is',
      '[problem details](http.md#problems).',
      '',
      '| code | status | in a sentence | recovery | page |',
      '|---|---|---|---|---|',
      ...rows,
      '',
      ...(unused.length === 0 ? [] : [`Reserved, and given by nothing: ${unused.join(', ')}.`, '']),
      '## Recoveries',
      '',
      'On the wire `recovery`, with who acts (`recoveryOwner`) and what comes next (`next`).',
      '',
      '| recovery | who | next | in a sentence |',
      '|---|---|---|---|',
      ...Object.entries(RECOVERIES).map(
        ([recovery, { owner, next, sentence }]) =>
          `| ${recovery} | \`${owner}\` | \`${next}\` | ${sentence} |`,
      ),
      '',
    ].join('\n');
    await expect(text).toMatchFileSnapshot(join(root, 'docs/refusals.md'));
  });

  it.each(codes)('names a page that speaks of the code: %s', (code) => {
    expect(read(`docs/${REFUSALS[code].page}.md`)).toContain(`\`${code}\``);
  });
});

describe('the page of races', () => {
  it('has the table that the races are held to', async () => {
    const text = withSection(read('docs/races.md'), 'races', raceTables());
    await expect(text).toMatchFileSnapshot(join(root, 'docs/races.md'));
  });
});

describe('the OpenAPI document', () => {
  it('is kept as the app serves it', async () => {
    const text = `${JSON.stringify(await openApiDocument(), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot(join(root, 'docs/openapi.json'));
  });

  it('has no route that the pages do not mention with its method', async () => {
    const text = pages.map(read).join('\n');
    const missing = routesOf(await openApiDocument()).filter(({ method, path }) => {
      const lines = text.split('\n').filter((line) => mentions(line, path));
      return !lines.some((line) => new RegExp(`\\b${method}\\b`).test(line));
    });
    expect(missing).toEqual([]);
  });
});

describe('the page of routes', () => {
  it('shows every route and every shape of the document', async () => {
    const { page } = await docsPage();
    const { paths, components } = await openApiDocument();
    const shown = page.replaceAll('<wbr />', '');
    for (const { method, path } of routesOf({ paths })) {
      expect(shown).toContain(`<b>${method}</b> <code>${path}</code>`);
    }
    for (const name of Object.keys(components.schemas)) {
      expect(page).toContain(`id="shape-${name}"`);
    }
  });

  it('fetches, runs and sends nothing, and says so to the browser', async () => {
    const { page, headers } = await docsPage();
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'unsafe-inline';/,
    );
    expect(headers.get('content-type')).toBe('text/html; charset=UTF-8');
    expect(page).not.toMatch(
      /<script|<link|<img|<iframe|<form|\ssrc=|\son\w+=|url\(|@import|https?:/i,
    );
  });

  it('has links that lead somewhere, and each anchor once', async () => {
    const { page } = await docsPage();
    const anchors = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => id);
    expect(new Set(anchors).size).toBe(anchors.length);
    const links = [...page.matchAll(/href="([^"]+)"/g)].map(([, link = '']) => link);
    const known = new Set(['/openapi.json', ...anchors.map((anchor) => `#${anchor}`)]);
    expect(links.filter((link) => !known.has(link))).toEqual([]);
  });

  it('names its language, its parts and the cells of its tables', async () => {
    const { page } = await docsPage();
    expect(page).toMatch(/<html lang="en">/);
    for (const part of [
      '<main',
      '<nav aria-label',
      'class="skip"',
      '<h1>',
      'prefers-color-scheme: dark',
    ]) {
      expect(page).toContain(part);
    }
    expect(page.match(/<table>/g)?.length).toBe(page.match(/<caption>/g)?.length);
    expect(page).not.toMatch(/<th>/);
  });

  it('writes what the document says as text, never as markup', async () => {
    const { page } = await docsPage();
    expect(page).toContain('unless given &quot;text/plain&quot;');
  });
});

/** What has no default, so that every setting is there. */
const URLS = {
  DATABASE_URL: 'postgresql://a@h/d',
  DATABASE_ADMIN_URL: 'postgresql://b@h/d',
  EARSHOT_KEY_SECRET: randomBytes(32).toString('base64url'),
};

describe('the table of settings', () => {
  const rows = settingRows();

  it('has every setting, and no other', () => {
    expect(rows.map(({ key }) => key).sort()).toEqual(Object.keys(readConfig(URLS)).sort());
  });

  it.each(rows)(
    'has the variable, default and bounds of $key',
    ({ key, variable, otherwise, from, to }) => {
      const value = (text: string): unknown => readConfig({ ...URLS, [variable]: text })[key];
      const byDefault: unknown = readConfig({})[key];
      if (otherwise === '') expect(byDefault).toBeUndefined();
      else if (key === 'dataDir') expect(byDefault).toBe(join(process.cwd(), otherwise));
      else expect(String(byDefault)).toBe(otherwise);
      if (from === '') {
        if (otherwise !== '') expect(String(value(otherwise))).toContain(otherwise);
        return;
      }
      expect(value(from)).toBe(Number(from));
      expect(value(to)).toBe(Number(to));
      for (const outside of [Number(from) - 1, Number(to) + 1]) {
        expect(() => value(outside.toString())).toThrow(variable);
      }
    },
  );
});

describe.each(pages)('%s', (page) => {
  it('has no link that leads nowhere', () => {
    const links = [...withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(
      ([, link = '']) => link,
    );
    const broken = links.filter((link) => {
      if (/^[a-z]+:/.test(link)) return false;
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : relative(root, join(root, dirname(page), path));
      if (!existsSync(join(root, target))) return true;
      return anchor !== undefined && !anchorsOf(read(target)).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('names no file of the project that is not there', () => {
    const named = [
      ...read(page).matchAll(
        /`((?:policy|sql|sessions|gateway|client|delivery|test|fixtures)\/[\w./-]*)`/g,
      ),
    ].map(([, path = '']) => path);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it('tells nothing of a machine: no absolute folder, no host of packages', () => {
    expect(read(page)).not.toMatch(
      /(?<![\w.}…)])\/(?:work|home|root|Users|tmp)\/|registry\.npm|npmjs|127\.0\.0\.1:(?!8787)\d/,
    );
  });
});

interface OpenApiDocument {
  readonly paths: Record<string, Record<string, unknown>>;
  readonly components: { readonly schemas: Record<string, unknown> };
}

/** The app over a database that is never asked. */
function appOfNoDatabase() {
  const database = openDatabase('postgresql://nobody@127.0.0.1:1/none');
  const keys = {
    current: () => Promise.reject(new Error('there are none')),
    find: () => Promise.resolve(undefined),
  };
  const config = readConfig({});
  return createApp({ database, keys, config, issuers: new Map(), compiling: compileSettings() });
}

async function openApiDocument(): Promise<OpenApiDocument> {
  const answer = await appOfNoDatabase().request('/openapi.json');
  return (await answer.json()) as OpenApiDocument;
}

async function docsPage(): Promise<{ page: string; headers: Headers }> {
  const answer = await appOfNoDatabase().request('/docs');
  expect(answer.status).toBe(200);
  return { page: await answer.text(), headers: answer.headers };
}

function routesOf({ paths }: Pick<OpenApiDocument, 'paths'>): { method: string; path: string }[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
  );
}

/** Whether a line has this route, and not only a longer one that begins with it. */
function mentions(line: string, path: string): boolean {
  const escaped = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`${escaped}(?![\\w/{-])`).test(line);
}

/** Whether anything but the list itself names the code. */
function isGiven(code: RefusalCode): boolean {
  return sources.some((text) => text.includes(`'${code}'`));
}
const sources = ['policy', 'sql', 'sessions', 'gateway']
  .flatMap((folder) => [...filesOf(folder, '.ts'), ...filesOf(folder, '.sql')])
  .filter((path) => path !== join('policy', 'refusal.ts'))
  .map(read);

function settingRows() {
  const names = new Set<string>(Object.keys(readConfig(URLS)));
  return read('docs/operations.md')
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
    .filter(
      (cells) =>
        cells.length === 8 && /^[a-z][A-Za-z]+$/.test(cells[1] ?? '') && cells[1] !== 'key',
    )
    .map(([, key = '', variable = '', otherwise = '', from = '', to = '']) => {
      if (!names.has(key)) throw new Error(`there is no setting ${key}`);
      return { key: key as Exclude<keyof Config, 'issuers'>, variable, otherwise, from, to };
    });
}

/** The anchors of a page's headings, as they are usually made. */
function anchorsOf(text: string): Set<string> {
  const headings = [...withoutCode(text).matchAll(/^#+ (.+)$/gm)];
  return new Set(
    headings.map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s-]/gu, '')
        .trim()
        .replace(/\s/g, '-'),
    ),
  );
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');
}

function filesOf(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name))
    .sort();
}
