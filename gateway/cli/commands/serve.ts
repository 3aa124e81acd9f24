import type { Server } from 'node:http';
import { serve, type ServerType } from '@hono/node-server';
import type { Command } from 'commander';
import { findClient } from '../../../sql/clients.ts';
import { openInstance, type Instance } from '../../instance.ts';
import { readSettings, typedNumber } from '../settings.ts';
import { openTerminal, type Terminal } from '../terminal.ts';
import { FIRST_CLIENT } from './init.ts';

interface ServeOptions {
  readonly host?: string;
  readonly port?: string;
  readonly json: boolean;
}

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('answer over HTTP until SIGTERM or SIGINT')
    .option('--host <address>', 'instead of EARSHOT_HOST')
    .option('--port <number>', 'instead of EARSHOT_PORT; 0 takes a free one')
    .option('--json', 'log JSON lines, as where the output is no terminal', false)
    .action(async (options: ServeOptions) => runServe(options, openTerminal(options.json)));
}

async function runServe(options: ServeOptions, terminal: Terminal): Promise<void> {
  const config = readSettings();
  const host = options.host ?? config.host;
  const port =
    options.port === undefined ? config.port : typedNumber('--port', options.port, 0, 65_535);
  const ended = firstSignal();
  const instance = await openInstance(config);
  try {
    // Nothing is heard before the database answers as one of this release.
    await findClient(instance.gateway.database, FIRST_CLIENT);
    const { server, url } = await listen(instance, host, port);
    log(terminal, 'listening', { url, database: instance.database });
    const signal = await ended;
    log(terminal, 'stopping', { signal });
    await close(server, config.requestTimeoutMs);
  } finally {
    await instance.close();
  }
  log(terminal, 'stopped', {});
}

/** The first signal to stop. A second one ends the process as it would without us. */
function firstSignal(): Promise<string> {
  return new Promise((resolve) => {
    const stop = (signal: string) => {
      process.off('SIGTERM', stop).off('SIGINT', stop);
      resolve(signal);
    };
    process.on('SIGTERM', stop).on('SIGINT', stop);
  });
}

function listen(
  { app }: Instance,
  hostname: string,
  port: number,
): Promise<{ server: ServerType; url: string }> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname, port }, (address) => {
      const name = address.address.includes(':') ? `[${address.address}]` : address.address;
      resolve({ server, url: `http://${name}:${address.port}` });
    });
    server.once('error', reject);
  });
}

/** Takes no new requests, lets those that run finish, and cuts off what outlives its own deadline. */
function close(server: ServerType, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const http = server as Server;
    const timer = setTimeout(() => {
      http.closeAllConnections();
    }, graceMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    http.closeIdleConnections();
  });
}

function log(terminal: Terminal, event: string, detail: Record<string, string>): void {
  if (!terminal.isTerminal) {
    process.stdout.write(`${JSON.stringify({ level: 'info', event, ...detail })}\n`);
    return;
  }
  const { bold, dim } = terminal.colors;
  if (event === 'listening') {
    terminal.say(`Earshot listens at ${bold(detail.url ?? '')}`);
    terminal.say(dim(`on the ${detail.database ?? ''} database; Ctrl-C stops it`));
  } else terminal.say(dim(event));
}
