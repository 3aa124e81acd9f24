import { z } from '@hono/zod-openapi';
import type { Fact } from '../../policy/fact.ts';
import { FloorShape, Id, Text, Time } from './scalar-shape.ts';

const HistoryShape = z.union([
  z.enum(['all', 'from_join', 'none']),
  z.strictObject({ fromSeq: FloorShape }),
  z.strictObject({ fromTime: Time }),
]);

export const UserBody = z
  .strictObject({
    kind: z.enum(['member', 'guest', 'bot']),
    status: z.enum(['active', 'deactivated']).default('active'),
    name: Text.max(200).optional(),
  })
  .openapi('User');

export const PersonaBody = z
  .strictObject({
    custody: z.enum(['service', 'user']),
    status: z.enum(['active', 'deactivated']).default('active'),
    designated: z.boolean(),
    approval: z.enum(['none', 'elsewhere', 'always']).optional(),
  })
  .openapi('Persona');

export const ProjectBody = z
  .strictObject({
    status: z.enum(['active', 'inactive']).default('active'),
    admitsGuests: z.boolean().default(false),
    members: z.array(Id).max(10_000).optional(),
  })
  .openapi('Project');

export const ConversationBody = z
  .strictObject({
    kind: z.enum(['private', 'group', 'channel', 'direct']),
    visibility: z.enum(['members', 'project', 'organization']),
    project: Id.optional(),
    owner: Id.optional(),
    aiThread: z.boolean().default(false),
    externalReaders: z.boolean().default(false),
    archived: z.boolean().default(false),
    title: Text.max(500).optional(),
    defaultFloor: FloorShape.optional(),
    staged: z.boolean().optional(),
  })
  .refine((body) => body.visibility !== 'project' || body.project !== undefined, {
    path: ['project'],
    error: 'is needed by the visibility',
  })
  .openapi('Conversation');

export const MemberBody = z
  .strictObject({ history: HistoryShape, expiresAt: Time.optional() })
  .openapi('Membership');

export const MembersBody = z
  .strictObject({
    members: z
      .array(z.strictObject({ user: Id, history: HistoryShape, expiresAt: Time.optional() }))
      .max(10_000)
      .refine((members) => new Set(members.map((member) => member.user)).size === members.length, {
        error: 'names somebody twice',
      }),
  })
  .openapi('Members');

export const MessageBody = z
  .strictObject({
    kind: z.enum(['message', 'event']).default('message'),
    author: z.union([z.strictObject({ user: Id }), z.strictObject({ persona: Id })]).optional(),
    body: Text,
    sentAt: Time,
    editedAt: Time.optional(),
    deleted: z.boolean().optional(),
    replyTo: Id.optional(),
    embeds: z
      .array(z.strictObject({ conversation: Id, message: Id }))
      .max(100)
      .optional(),
  })
  .openapi('Message');

const line = <Name extends string>(name: Name) => z.strictObject({ fact: z.literal(name) });

/** One line of NDJSON: a fact with its ids beside it. */
export const FactLine = z
  .discriminatedUnion('fact', [
    line('user').extend({ id: Id, ...UserBody.shape }),
    line('persona').extend({ id: Id, ...PersonaBody.shape }),
    line('project').extend({ id: Id, ...ProjectBody.shape }),
    line('conversation').extend({ id: Id, ...ConversationBody.shape }),
    line('members').extend({ conversation: Id, ...MembersBody.shape }),
    line('member').extend({ conversation: Id, user: Id, ...MemberBody.shape }),
    line('open').extend({ conversation: Id }),
    line('message').extend({ conversation: Id, id: Id, ...MessageBody.shape }),
  ])
  .refine(
    (fact) =>
      fact.fact !== 'conversation' || fact.visibility !== 'project' || fact.project !== undefined,
    { path: ['project'], error: 'is needed by the visibility' },
  )
  .transform((fact): Fact => fact);
