import { bigint, boolean, pgSchema, primaryKey, text } from 'drizzle-orm/pg-core';

/** The tables of simple facts, as the migrations make them. Scope reads never go through these. */
const earshot = pgSchema('earshot');

export const organizations = earshot.table('organizations', {
  id: bigint({ mode: 'bigint' }).primaryKey(),
  externalId: text('external_id').notNull(),
  status: text({ enum: ['active', 'suspended'] }).notNull(),
  guard: text({ enum: ['running', 'paused'] }).notNull(),
  policyRevision: bigint('policy_revision', { mode: 'bigint' }).notNull(),
});

export const users = earshot.table(
  'users',
  {
    orgId: bigint('org_id', { mode: 'bigint' }).notNull(),
    id: bigint({ mode: 'bigint' }).generatedAlwaysAsIdentity(),
    externalId: text('external_id').notNull(),
    kind: text({ enum: ['member', 'guest', 'bot'] }).notNull(),
    status: text({ enum: ['active', 'deactivated'] }).notNull(),
    deleted: boolean().notNull().default(false),
    name: text(),
  },
  (table) => [primaryKey({ columns: [table.orgId, table.id] })],
);

export const personas = earshot.table(
  'personas',
  {
    orgId: bigint('org_id', { mode: 'bigint' }).notNull(),
    id: bigint({ mode: 'bigint' }).generatedAlwaysAsIdentity(),
    externalId: text('external_id').notNull(),
    custody: text({ enum: ['service', 'user'] }).notNull(),
    status: text({ enum: ['active', 'deactivated'] }).notNull(),
    designated: boolean().notNull(),
    approval: text({ enum: ['none', 'elsewhere', 'always'] })
      .notNull()
      .default('none'),
  },
  (table) => [primaryKey({ columns: [table.orgId, table.id] })],
);

export const projects = earshot.table(
  'projects',
  {
    orgId: bigint('org_id', { mode: 'bigint' }).notNull(),
    id: bigint({ mode: 'bigint' }).generatedAlwaysAsIdentity(),
    externalId: text('external_id').notNull(),
    status: text({ enum: ['active', 'inactive'] }).notNull(),
    admitsGuests: boolean('admits_guests').notNull(),
  },
  (table) => [primaryKey({ columns: [table.orgId, table.id] })],
);

export const projectMembers = earshot.table(
  'project_members',
  {
    orgId: bigint('org_id', { mode: 'bigint' }).notNull(),
    projectId: bigint('project_id', { mode: 'bigint' }).notNull(),
    userId: bigint('user_id', { mode: 'bigint' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.orgId, table.userId, table.projectId] })],
);

export const stops = earshot.table(
  'stops',
  {
    orgId: bigint('org_id', { mode: 'bigint' }).notNull(),
    kind: text({ enum: ['organization', 'persona', 'conversation', 'turn'] }).notNull(),
    target: text().notNull(),
    reason: text(),
  },
  (table) => [primaryKey({ columns: [table.orgId, table.kind, table.target] })],
);
