import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openExport, readJson } from '../../gateway/importers/export-source.ts';
import { ALL, ANN, importPath, messagesOf, said, zipOf } from '../support/slack-export.ts';

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'earshot-export-'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

describe('an archive', () => {
  const files = { 'users.json': Buffer.from('[]'), 'dms.json': Buffer.from('[]') };

  /** The bytes of a zip with every occurrence of one text replaced by another of the same length. */
  async function patched(path: string, from: string, to: string): Promise<string> {
    const bytes = (await readFile(path)).toString('latin1').replaceAll(from, to);
    await writeFile(path, Buffer.from(bytes, 'latin1'));
    return path;
  }

  it('that names a file outside itself is refused whole', async () => {
    for (const name of ['../x.json', '/etc/x.jso', '..\\x.json', 'C:/x.jsonx']) {
      const honest = 'x'.repeat(name.length);
      const zip = await zipOf(scratch, { ...files, [honest]: Buffer.from('[]') }, 'slip.zip');
      const opening = openExport(await patched(zip, honest, name));
      await expect(opening).rejects.toMatchObject({ code: 'unsafe_archive' });
    }
  });

  it('that holds two files of one name is refused whole', async () => {
    const zip = await zipOf(scratch, { ...files, 'xsers.json': Buffer.from('[1]') }, 'twice.zip');
    await expect(openExport(await patched(zip, 'xsers.json', 'users.json'))).rejects.toMatchObject({
      code: 'unsafe_archive',
    });
  });

  it('does not unpack a file that would grow beyond reason, or beyond the limit', async () => {
    const bomb = await openExport(
      await zipOf(scratch, { 'bomb.json': Buffer.alloc(4 << 20, 32) }, 'bomb.zip'),
    );
    await expect(bomb.read('bomb.json')).rejects.toMatchObject({ code: 'unsafe_archive' });
    await bomb.close();

    const path = await zipOf(
      scratch,
      { 'big.json': Buffer.from('[1,2,3,4,5,6]'.repeat(9)) },
      'big.zip',
    );
    const bytes = await readFile(path);
    bytes.writeUInt32LE(0x7fffffff, bytes.lastIndexOf('PK\x01\x02') + 24);
    await writeFile(path, bytes);
    const big = await openExport(path);
    await expect(big.read('big.json')).rejects.toMatchObject({ code: 'too_large' });
    await big.close();
  });

  it('that announces less than it holds is not believed', async () => {
    const path = await zipOf(
      scratch,
      { 'a.json': Buffer.from('[1,2,3,4,5,6]'.repeat(9)) },
      'liar.zip',
    );
    const bytes = await readFile(path);
    bytes.writeUInt32LE(3, bytes.lastIndexOf('PK\x01\x02') + 24);
    await writeFile(path, bytes);
    const liar = await openExport(path);
    await expect(liar.read('a.json')).rejects.toMatchObject({ code: 'not_readable' });
    await liar.close();
  });

  it('that is none is told so', async () => {
    await expect(openExport(join(scratch, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
    const path = join(scratch, 'plain.txt');
    await writeFile(path, 'no zip');
    await expect(openExport(path)).rejects.toMatchObject({ code: 'not_readable' });
  });

  it('with names in UTF-8 that it does not declare, as Slack writes them, is read by those names', async () => {
    const named = {
      'users.json': Buffer.from(JSON.stringify([ANN])),
      'channels.json': Buffer.from(
        JSON.stringify([{ id: 'C0CAFE0001', name: 'café-日本'.normalize('NFD') }]),
      ),
      'café-日本/2021-03-01.json': Buffer.from(JSON.stringify([said('1.000000', 'bonjour')])),
    };
    const path = await zipOf(scratch, named, 'utf8.zip');
    const bytes = await readFile(path);
    for (const [signature, flags] of [
      ['PK\x01\x02', 8],
      ['PK\x03\x04', 6],
    ] as const) {
      for (let at = bytes.indexOf(signature); at >= 0; at = bytes.indexOf(signature, at + 1)) {
        bytes.writeUInt16LE(bytes.readUInt16LE(at + flags) & ~0x800, at + flags);
      }
    }
    await writeFile(path, bytes);
    const { facts } = await importPath(path, ALL);
    expect(messagesOf(facts, 'C0CAFE0001').map(({ body }) => body)).toEqual(['bonjour']);
  });

  it('or folder is read by listed names alone: no link, no way up, no name that is not there', async () => {
    const folder = join(scratch, 'linked');
    await mkdir(join(folder, 'one'), { recursive: true });
    await writeFile(join(folder, 'users.json'), '[]');
    await symlink('/etc/hostname', join(folder, 'one/2021-03-01.json'));
    await symlink('/etc', join(folder, 'two'));
    const source = await openExport(folder);
    expect(source.names).toEqual(['users.json']);
    await expect(source.read('../plain.txt')).rejects.toMatchObject({ code: 'not_found' });
    expect(await readJson(source, 'users.json')).toEqual([]);
  });
});
