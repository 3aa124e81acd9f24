import { constants } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Entry,
  getFileNameLowLevel,
  openPromise,
  validateFileName,
  type ZipFile,
} from 'yauzl';

/**
 * An export as people have it, a folder or a zip, behind one small interface. Nothing is extracted
 * to disk and one file is held at a time.
 */
export interface ExportSource {
  /** The path of every file, `/`-separated, in Normalization Form C, sorted. */
  readonly names: readonly string[];
  /** The bytes of one listed file. Throws {@link ExportFault}. */
  read(name: string): Promise<Buffer>;
  close(): Promise<void>;
}

type ExportFaultCode =
  | 'not_found'
  | 'not_readable'
  | 'unsafe_archive'
  | 'too_large'
  | 'not_json'
  | 'not_an_export'
  | 'unknown_relay_bot';

/** Why an export, or one file of it, cannot be read. Its message holds no file or folder name. */
export class ExportFault extends Error {
  readonly code: ExportFaultCode;

  constructor(code: ExportFaultCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ExportFault';
    this.code = code;
  }
}

/** A JSON file is parsed whole; beyond this it would not fit into one string. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;
const MAX_FILES = 1_000_000;
const MAX_DEPTH = 4;

// JSON of chats deflates by 5 to 40. A small file may repeat itself more, and costs nothing.
const MAX_RATIO = 200;
const RATIO_FREE_BYTES = 1024 * 1024;

/** Opens a folder or a zip. Throws {@link ExportFault} for a path that is neither, or an unsafe archive. */
export async function openExport(path: string): Promise<ExportSource> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new ExportFault('not_found', 'there is no folder or zip file at this path', cause);
  });
  return found.isDirectory() ? openFolder(path) : openZip(path);
}

/** Parses one file. Bytes that are not UTF-8 are refused: repairing them could make two ids one. */
export async function readJson(source: ExportSource, name: string): Promise<unknown> {
  return parseJson(await source.read(name));
}

export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown;
  } catch {
    // The parser's own message quotes the text.
    throw new ExportFault('not_json', 'the file is not JSON in UTF-8');
  }
}

async function openFolder(root: string): Promise<ExportSource> {
  const paths = new Map<string, string>();
  const walk = async (folder: string, prefix: string, depth: number): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      // A symbolic link is neither a file nor a directory here, so nothing outside is reached.
      if (entry.isDirectory() && depth < MAX_DEPTH) {
        await walk(path, `${prefix}${entry.name}/`, depth + 1);
      } else if (entry.isFile()) {
        addName(paths, prefix + entry.name, path);
      }
    }
  };
  await walk(root, '', 1);
  return {
    names: sortedNames(paths),
    async read(name) {
      const file = await open(listed(paths, name), constants.O_RDONLY | constants.O_NOFOLLOW);
      try {
        refuseSize((await file.stat()).size);
        return await file.readFile();
      } finally {
        await file.close();
      }
    },
    close: () => Promise.resolve(),
  };
}

async function openZip(path: string): Promise<ExportSource> {
  const zip = await openPromise(path, { autoClose: false, decodeStrings: false }).catch(
    (cause: unknown) => {
      throw new ExportFault('not_readable', 'the file is not a zip archive', cause);
    },
  );
  try {
    const entries = new Map<string, Entry>();
    for await (const entry of zip.eachEntry()) {
      const name = entryName(entry);
      if (validateFileName(name) !== null) {
        throw new ExportFault('unsafe_archive', 'the archive names a file outside itself');
      }
      if (!name.endsWith('/')) addName(entries, name, entry);
    }
    return {
      names: sortedNames(entries),
      read: (name) => readEntry(zip, listed(entries, name)),
      close() {
        zip.close();
        return Promise.resolve();
      },
    };
  } catch (error) {
    zip.close();
    if (error instanceof ExportFault) throw error;
    throw new ExportFault('not_readable', 'the zip archive is damaged', error);
  }
}

/**
 * Slack's archives hold UTF-8 names without the flag that says so, and the standard's fallback
 * (code page 437) would turn them into other names. So UTF-8 is tried first.
 */
function entryName(entry: Entry): string {
  try {
    const name = new TextDecoder('utf-8', { fatal: true }).decode(entry.fileNameRaw);
    return name.replaceAll('\\', '/');
  } catch {
    return getFileNameLowLevel(
      entry.generalPurposeBitFlag,
      entry.fileNameRaw,
      entry.extraFields,
      false,
    );
  }
}

async function readEntry(zip: ZipFile, entry: Entry): Promise<Buffer> {
  refuseSize(entry.uncompressedSize);
  if (
    entry.uncompressedSize > RATIO_FREE_BYTES &&
    entry.uncompressedSize > MAX_RATIO * entry.compressedSize
  ) {
    throw new ExportFault('unsafe_archive', 'the file unpacks to far more than a chat would');
  }
  if (!entry.canDecodeFileData()) {
    throw new ExportFault('not_readable', 'the file is encrypted or packed by an unknown method');
  }
  try {
    // The library ends the stream with an error where the content is longer than announced.
    const chunks: Buffer[] = [];
    for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  } catch (cause) {
    throw new ExportFault('not_readable', 'the file is damaged inside the archive', cause);
  }
}

function addName<T>(files: Map<string, T>, name: string, value: T): void {
  const key = name.normalize('NFC');
  if (files.has(key)) {
    throw new ExportFault('unsafe_archive', 'two files of the export have one name');
  }
  if (files.size >= MAX_FILES) {
    throw new ExportFault('too_large', `the export holds more than ${MAX_FILES} files`);
  }
  files.set(key, value);
}

function sortedNames(files: ReadonlyMap<string, unknown>): string[] {
  return [...files.keys()].sort();
}

function listed<T>(files: ReadonlyMap<string, T>, name: string): T {
  const file = files.get(name);
  if (file === undefined) throw new ExportFault('not_found', 'the export has no file of this name');
  return file;
}

function refuseSize(bytes: number): void {
  if (bytes > MAX_FILE_BYTES) {
    throw new ExportFault('too_large', `a file is larger than ${MAX_FILE_BYTES} bytes`);
  }
}
