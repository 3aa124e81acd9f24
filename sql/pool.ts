import { connectionFailure, type Connection } from './connection.ts';

/** Hands out connections, one holder at a time, at most `max` of them. */
export interface Pool {
  /** Waits for a connection; rejects as unavailable after `waitMs`, or once the pool is closed. */
  lease(): Promise<Connection>;
  /** Takes a connection back. A holder that leaves state in its session closes it first. */
  release(connection: Connection): void;
  /** Refuses new holders, gives present ones `graceMs` to finish, then closes every connection. */
  close(graceMs: number): Promise<void>;
}

interface Waiter {
  resolve(connection: Connection): void;
  reject(reason: Error): void;
}

/** Connections are opened when they are needed and dropped as soon as they are lost. */
export function openPool(
  open: (onLost: () => void) => Connection,
  { max, waitMs }: { max: number; waitMs: number },
): Pool {
  const members = new Set<Connection>();
  const idle: Connection[] = [];
  const waiting = new Set<Waiter>();
  let closing = false;
  let onQuiet = () => {};

  function take(): Connection | undefined {
    const ready = idle.pop();
    if (ready !== undefined || members.size >= max) return ready;
    const connection = open(() => {
      members.delete(connection);
      if (idle.includes(connection)) idle.splice(idle.indexOf(connection), 1);
      serveNext();
    });
    members.add(connection);
    return connection;
  }

  function serveNext() {
    for (const waiter of waiting) {
      const connection = take();
      if (connection === undefined) return;
      waiter.resolve(connection);
    }
    if (idle.length === members.size) onQuiet();
  }

  function wait(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => waiter.reject(connectionFailure('CONNECT_TIMEOUT')), waitMs);
      const settle =
        <T>(settled: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer);
          waiting.delete(waiter);
          settled(value);
        };
      const waiter: Waiter = { resolve: settle(resolve), reject: settle(reject) };
      waiting.add(waiter);
    });
  }

  return {
    async lease() {
      if (closing) throw connectionFailure('CONNECTION_ENDED');
      return take() ?? (await wait());
    },
    release(connection) {
      if (members.has(connection)) idle.push(connection);
      serveNext();
    },
    async close(graceMs) {
      closing = true;
      for (const waiter of waiting) waiter.reject(connectionFailure('CONNECTION_ENDED'));
      if (idle.length < members.size) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, graceMs);
          onQuiet = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      await Promise.all([...members].map((connection) => connection.close()));
    },
  };
}
