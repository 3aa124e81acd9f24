/**
 * Remembers at which servers the grant endpoint was once seen: there its absence is never believed
 * again. One that is kept outlives the process; one that throws fails the request that asked.
 */
export interface GrantMemory {
  seen(server: string): boolean | Promise<boolean>;
  remember(server: string): void | Promise<void>;
}

/** A memory that lasts as long as the client that it belongs to. */
export function memoryOfProcess(): GrantMemory {
  const servers = new Set<string>();
  return {
    seen: (server) => servers.has(server),
    remember: (server) => {
      servers.add(server);
    },
  };
}
