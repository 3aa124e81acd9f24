import { chainedHash } from './content-hash.ts';

/** The messages of a request as a chain: of each, a hash over it and all before it, and its length in bytes. */
export interface MessageChain {
  /** 8 bytes for each message. */
  readonly hashes: Buffer;
  readonly lengths: readonly number[];
}

const WIDTH = 8;

/** The chain of messages, each as the bytes of its JSON. */
export function chainOf(messages: readonly unknown[]): MessageChain {
  const hashes = Buffer.alloc(messages.length * WIDTH);
  const lengths: number[] = [];
  let link: Uint8Array = new Uint8Array(0);
  for (const [index, message] of messages.entries()) {
    const bytes = Buffer.from(JSON.stringify(message));
    link = chainedHash(link, bytes).subarray(0, WIDTH);
    hashes.set(link, index * WIDTH);
    lengths.push(bytes.length);
  }
  return { hashes, lengths };
}

/** How much of a request, from its beginning, is the same as an earlier one's: whole messages, and their bytes. */
export function sharedPrefix(
  { hashes, lengths }: MessageChain,
  earlier: Buffer,
): { messages: number; bytes: number; ofBytes: number } {
  let messages = 0;
  while (
    messages < lengths.length &&
    (messages + 1) * WIDTH <= earlier.length &&
    hashes.compare(
      earlier,
      messages * WIDTH,
      (messages + 1) * WIDTH,
      messages * WIDTH,
      (messages + 1) * WIDTH,
    ) === 0
  ) {
    messages++;
  }
  const sum = (some: readonly number[]) => some.reduce((total, length) => total + length, 0);
  return { messages, bytes: sum(lengths.slice(0, messages)), ofBytes: sum(lengths) };
}
