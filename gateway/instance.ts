import { join } from 'node:path';
import type { OpenAPIHono } from '@hono/zod-openapi';
import { compileSettings } from '../sessions/compile/compile-settings.ts';
import { openDatabase, type Database } from '../sql/database.ts';
import { startEmbedded } from '../sql/embedded.ts';
import { migrate } from '../sql/migrate.ts';
import { createApp } from './app.ts';
import type { Config } from './config.ts';
import type { Gateway } from './gateway.ts';
import { openIssuers } from './issuers.ts';
import { keyStoreOf, openKeys, type Keys } from './keys.ts';
import { keyFile } from './keys/key-file.ts';

/** A gateway that is ready to answer, and the way to end it. */
export interface Instance {
  readonly gateway: Gateway;
  readonly app: OpenAPIHono;
  /** Where its database is: a server that was named, or the embedded one. */
  readonly database: 'server' | 'embedded';
  /** The login that owns the database, where it is known. */
  readonly adminUrl: string | undefined;
  close(): Promise<void>;
}

/**
 * Opens a gateway: its database, migrated where the login for that is known, its keys, and the issuers it trusts.
 *
 * Without `databaseUrl` it starts, or joins, the embedded PostgreSQL of the data folder, and migrates
 * it. With it, the database is migrated if `databaseAdminUrl` is given too, and left as it is
 * otherwise.
 */
export async function openInstance(config: Config): Promise<Instance> {
  const issuers = await openIssuers(config.issuers ?? [], config.clockToleranceSeconds);
  // Keys in a file are looked at before anything is started for them.
  const fromFile =
    config.keySecret === undefined ? await openKeys(keyFile(config.dataDir)) : undefined;
  const place = await placeOf(config);
  let database: Database | undefined;
  const close = async () => {
    await database?.close();
    await place.stop();
  };
  try {
    if (place.adminUrl !== undefined) {
      await migrate(place.adminUrl, { gatewayUrl: place.gatewayUrl });
    }
    database = openDatabase(place.gatewayUrl, {
      max: config.poolSize,
      prepare: config.prepareStatements,
      statementTimeoutMs: config.statementTimeoutMs,
      connectTimeoutSeconds: Math.max(1, Math.floor(config.requestTimeoutMs / 2000)),
      applicationName: 'earshot',
    });
    const keys: Keys = fromFile ?? (await openKeys(keyStoreOf(config, database)));
    const gateway = { database, keys, config, issuers, compiling: compileSettings(config) };
    return {
      gateway,
      app: createApp(gateway),
      database: config.databaseUrl === undefined ? 'embedded' : 'server',
      adminUrl: place.adminUrl,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The logins of a database. */
export interface Place {
  readonly gatewayUrl: string;
  readonly adminUrl: string | undefined;
  stop(): Promise<void>;
}

/** Where the database is, started if it is the embedded one. */
export async function placeOf(config: Config): Promise<Place> {
  if (config.databaseUrl !== undefined) {
    return {
      gatewayUrl: config.databaseUrl,
      adminUrl: config.databaseAdminUrl,
      stop: () => Promise.resolve(),
    };
  }
  const server = await startEmbedded({ dataDir: join(config.dataDir, 'postgresql') });
  return {
    gatewayUrl: server.gatewayUrl(),
    adminUrl: server.adminUrl(),
    stop: () => server.stop(),
  };
}
