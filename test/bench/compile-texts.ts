import { readdir, readFile } from 'node:fs/promises';

const PAGES = new URL('../../docs/', import.meta.url);
const SCHEMA = new URL('../../sql/schema.sql.txt', import.meta.url);

/**
 * The sentences of this project's own pages. What a tokenizer takes depends on what it is given, and the words that the data of a
 * bench is made of are no words of a language.
 */
export async function sentences(): Promise<string[]> {
  const names = (await readdir(PAGES)).filter((name) => name.endsWith('.md')).sort();
  const pages = await Promise.all(names.map((name) => readFile(new URL(name, PAGES), 'utf8')));
  return pages
    .flatMap((page) => page.replaceAll(/```[^]*?```/g, '').split(/\n\s*\n/))
    .filter((paragraph) => !/^\s*[|#<]/.test(paragraph))
    .flatMap((paragraph) =>
      paragraph
        .replaceAll(/\s+/g, ' ')
        .trim()
        .split(/(?<=[.:;]) /),
    )
    .filter((sentence) => sentence.length >= 30 && sentence.length <= 300);
}

/** As many texts as asked for, each of two sentences, and hardly one twice. */
export function pairsOf(some: readonly string[], count: number): string[] {
  return Array.from({ length: count }, (_, nth) => {
    const round = Math.floor(nth / some.length);
    return [some[nth % some.length], some[(nth * 31 + round) % some.length]].join(' ');
  });
}

/** The schema, part by part, as code that a tool may give. */
export async function partsOfSchema(): Promise<string[]> {
  return (await readFile(SCHEMA, 'utf8')).split(/\n\s*\n/);
}
