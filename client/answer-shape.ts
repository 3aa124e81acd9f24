import { z } from 'zod';
import { parseSequence } from '../policy/sequence.ts';

// What the gateway answers, as far as a bridge reads it. Fields that a later release adds are left out.

const Sequence = z
  .string()
  .refine((text) => parseSequence(text) !== undefined, 'is not a canonical decimal');
const Digest = z.string().regex(/^[0-9a-f]{64}$/);
const Uuid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const Count = z.int().min(0);
/** A compact JWS: two JSON objects and a signature, in base64url. */
const Token = z
  .string()
  .max(4096)
  .regex(/^eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$/);

export const DoneShape = z.object({ status: z.literal('ok') });
export const OpenedShape = z.object({ turnId: Uuid });

export const VersionShape = z.object({
  name: z.string(),
  version: z.string(),
  grants: z.boolean().optional(),
  offers: z.array(z.string()).optional(),
});
export type Version = z.infer<typeof VersionShape>;

export const PersonaShape = z.object({ custody: z.string() });

export const TurnShape = z.object({
  turnId: Uuid,
  persona: z.string(),
  destination: z.string(),
  requester: z.string(),
  trigger: z.string(),
  triggerSeq: Sequence.optional(),
  tools: z.array(z.string()),
  state: z.string(),
  leaseOwner: z.string().optional(),
  leaseFence: Sequence,
  expiresAt: z.string(),
});
export type Turn = z.infer<typeof TurnShape>;

export const LeaseShape = z.object({ leaseId: Uuid, owner: z.string(), fence: Sequence });
export type Lease = z.infer<typeof LeaseShape>;
export const ExtendedShape = z.object({ expiresAt: z.string() });

export const GrantShape = z.object({
  grantId: Uuid,
  token: Token,
  turnId: Uuid,
  leaseOwner: z.string(),
  leaseFence: Sequence,
  audienceHash: Digest,
  mode: z.enum(['mention', 'private', 'guest', 'project', 'thread']),
  projectBound: z.string().optional(),
  destination: z.string(),
  tools: z.array(z.string()),
  sessionId: Uuid,
  threadKey: z.string(),
  salt: z.string().min(1),
  sessionEpoch: Sequence,
  policyRevision: Sequence,
  // An audience of nobody is no audience (INVARIANT 10).
  readers: z
    .object({ people: Count, classes: Count })
    .refine(({ people, classes }) => people + classes > 0, 'is empty'),
  conversations: Count,
  expiresAt: z.string(),
});
export type Grant = z.infer<typeof GrantShape>;

const EnvelopeShape = z.object({
  origin: z.string(),
  owner: z.string().optional(),
  sensitivity: z.string(),
  history: z.object({ conversation: z.string(), fromSeq: Sequence }),
  decision: z.object({ id: z.string(), policyRevision: Sequence, at: z.string() }),
});
const ReferenceShape = z.object({ conversation: z.string(), seq: Sequence, id: z.string() });

const MessageItemShape = z.object({
  text: z.string(),
  source: z.object({
    type: z.string(),
    id: z.string(),
    conversation: z.string(),
    seq: Sequence,
    revision: Sequence,
  }),
  envelope: EnvelopeShape,
  kind: z.string(),
  author: z.union([z.object({ user: z.string() }), z.object({ persona: z.string() })]).optional(),
  sentAt: z.string(),
  edited: z.boolean().optional(),
  replyTo: ReferenceShape.optional(),
  embeds: z.array(ReferenceShape).optional(),
  score: z.number().optional(),
  highlights: z.array(z.object({ start: z.int(), end: z.int() })).optional(),
});
export type MessageItem = z.infer<typeof MessageItemShape>;

const page = { decision: z.string(), cursor: z.string().optional(), complete: z.boolean() };
export const MessagePacketShape = z.object({
  ...page,
  items: z.array(MessageItemShape),
  total: z.object({ messages: Sequence, complete: z.boolean() }).optional(),
});
export type MessagePacket = z.infer<typeof MessagePacketShape>;

export const ConversationPacketShape = z.object({
  ...page,
  items: z.array(
    z.object({
      conversation: z.string(),
      title: z.string().optional(),
      kind: z.string(),
      messages: z.string(),
      latestAt: z.string().optional(),
      envelope: EnvelopeShape,
    }),
  ),
});
export type ConversationPacket = z.infer<typeof ConversationPacketShape>;

const ReaderNames = z.array(z.object({ kind: z.string(), id: z.string() }));

/** How the audience moved: counts, and names for a client that may see them. */
export const AudienceChangesShape = z.object({
  added: z.int(),
  gone: z.int(),
  floorsMoved: z.int(),
  names: z.object({ added: ReaderNames, gone: ReaderNames, floorsMoved: ReaderNames }).optional(),
});
export type AudienceChanges = z.infer<typeof AudienceChangesShape>;

const delivery = { id: Uuid, destination: z.string(), payloadSha256: Digest };
const standing = {
  code: z.string().optional(),
  recovery: z.string().optional(),
  detail: z.string().optional(),
  changes: AudienceChangesShape.optional(),
};
const SETTLED = ['held', 'released', 'reconciling', 'delivered', 'failed', 'discarded'] as const;

/** The verdict on a proposal: only a cleared one has a clearance. */
export const ProposedShape = z.discriminatedUnion('status', [
  z.object({ ...delivery, status: z.literal('cleared'), clearance: Token, expiresAt: z.string() }),
  z.object({ ...delivery, ...standing, status: z.enum(SETTLED) }),
]);
export type Proposed = z.infer<typeof ProposedShape>;

/** A delivery as it stands. */
export const DeliveryShape = z.object({
  ...delivery,
  ...standing,
  status: z.enum(['cleared', ...SETTLED]),
  expiresAt: z.string().optional(),
});
export type Delivery = z.infer<typeof DeliveryShape>;

export const ReleasedShape = z.object({
  destination: z.string(),
  payload: z.string(),
  contentType: z.string(),
  payloadSha256: Digest,
  acknowledgeBy: z.string(),
});
export type Released = z.infer<typeof ReleasedShape>;
