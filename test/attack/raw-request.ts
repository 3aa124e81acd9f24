import { connect } from 'node:net';

/** An answer as it came over the socket. */
export interface RawAnswer {
  readonly status: number;
  /** The JSON of the body, if it is any. */
  readonly body: unknown;
  readonly code: string | undefined;
}

/** A header as a line of its own: the same name may come twice, and its value is sent as it is. */
export type Header = readonly [name: string, value: string];

/** Sends a request byte for byte, so that no client corrects it, and reads the answer. */
export async function rawRequest(
  port: number,
  [method, path]: readonly [method: string, path: string],
  headers: readonly Header[],
  body = '',
): Promise<RawAnswer> {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'host: gateway',
    'connection: close',
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body).toString()}`,
  ];
  const socket = connect(port, '127.0.0.1');
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of socket) chunks.push(chunk as Buffer);
  } catch (error) {
    // A server that refuses a request before it has read it all may reset the connection.
    if (chunks.length === 0) throw error;
  }
  const text = Buffer.concat(chunks).toString();
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]);
  const [json] = /\{.*\}/s.exec(text.slice(text.indexOf('\r\n\r\n'))) ?? [];
  const parsed = json === undefined ? undefined : (JSON.parse(json) as { code?: string });
  return { status, body: parsed, code: parsed?.code };
}
