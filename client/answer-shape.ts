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

const found = {
  score: z.number().optional(),
  highlights: z.array(z.object({ start: z.int(), end: z.int() })).optional(),
};

const MessageItemShape = z.object({
  text: z.string(),
  source: z.object({
    type: z.literal('message'),
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
  ...found,
});
export type MessageItem = z.infer<typeof MessageItemShape>;

/** A text that was saved, with all that it was made from as its sources. */
const ArtifactItemShape = z.object({
  text: z.string(),
  source: z.object({ type: z.literal('artifact'), id: Uuid, revision: Sequence }),
  envelope: EnvelopeShape,
  kind: z.literal('artifact'),
  artifact: z.object({
    kind: z.string(),
    title: z.string().optional(),
    /** Its sources are the word of whoever registered it. */
    asserted: z.boolean().optional(),
    /** A source of it was edited or deleted since. */
    stale: z.boolean().optional(),
  }),
  author: z.object({ persona: z.string() }).optional(),
  sentAt: z.string(),
  ...found,
});
export type ArtifactItem = z.infer<typeof ArtifactItemShape>;

const page = { decision: z.string(), cursor: z.string().optional(), complete: z.boolean() };
export const MessagePacketShape = z.object({
  ...page,
  items: z.array(z.union([MessageItemShape, ArtifactItemShape])),
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
/** What a refusal says about a way on: what to do, who does it, and what that leads to. */
export const RecoveryFields = {
  recovery: z.string().optional(),
  recoveryOwner: z.string().optional(),
  next: z.string().optional(),
};
const standing = {
  ...RecoveryFields,
  code: z.string().optional(),
  detail: z.string().optional(),
  changes: AudienceChangesShape.optional(),
  /** Where the same text could go instead; told to bridges and operators by `showDelivery` alone. */
  alternatives: z
    .array(z.object({ action: z.string(), destination: z.string().optional() }))
    .optional(),
};
/** How a delivery goes through the queue, where it does. */
const queued = {
  expiresAt: z.string().optional(),
  /** Not claimed before; of one that is tried again, when. */
  sendAt: z.string().optional(),
  attempts: Count.optional(),
  approval: z.object({ by: z.string().optional(), at: z.string().optional() }).optional(),
  /** The delivery whose message this one edits. */
  edits: Uuid.optional(),
  /** Why it failed, as it was reported. */
  reason: z.string().optional(),
  message: z.string().optional(),
};
const ON_ITS_WAY = ['waiting', 'scheduled', 'cleared', 'claimed'] as const;
const SETTLED = [
  'held',
  'released',
  'reconciling',
  'delivered',
  'failed',
  'dead',
  'discarded',
] as const;

const ClearedShape = z.object({
  ...delivery,
  ...queued,
  status: z.literal('cleared'),
  clearance: Token,
  expiresAt: z.string(),
});
/** Cleared, for whoever has the clearance. */
export type Cleared = z.infer<typeof ClearedShape>;

const QueuedShape = z.object({
  ...delivery,
  ...queued,
  status: z.enum(ON_ITS_WAY),
  clearance: z.undefined().optional(),
});
/** On its way through the queue, where a worker's claim brings the clearance. */
export type Queued = z.infer<typeof QueuedShape>;

/** The verdict on a proposal, or how it was held or settled before. */
export const ProposedShape = z.union([
  ClearedShape,
  QueuedShape,
  z.object({
    ...delivery,
    ...standing,
    ...queued,
    status: z.enum(SETTLED),
    clearance: z.undefined().optional(),
  }),
]);
export type Proposed = z.infer<typeof ProposedShape>;

/** A delivery as it stands. */
export const DeliveryShape = z.object({
  ...delivery,
  ...standing,
  ...queued,
  status: z.enum([...ON_ITS_WAY, ...SETTLED]),
});
export type Delivery = z.infer<typeof DeliveryShape>;
export type DeliveryStatus = Delivery['status'];

export const DeliveryPageShape = z.object({
  deliveries: z.array(DeliveryShape),
  cursor: z.string().optional(),
  complete: z.boolean(),
});
export type DeliveryPage = z.infer<typeof DeliveryPageShape>;

/** The delivery that another one edits, and the message that it became. */
const EditedShape = z.object({ delivery: Uuid, message: z.string() });

export const ClaimedShape = z.object({
  deliveries: z.array(
    z.object({
      ...delivery,
      contentType: z.string(),
      /** The release and the report of this claim name it. */
      fence: Sequence,
      attempt: Count,
      clearance: Token,
      leaseExpiresAt: z.string(),
      expiresAt: z.string(),
      edits: EditedShape.optional(),
    }),
  ),
});
export type ClaimedDelivery = z.infer<typeof ClaimedShape>['deliveries'][number];

export const ReleasedShape = z.object({
  destination: z.string(),
  payload: z.string(),
  contentType: z.string(),
  payloadSha256: Digest,
  acknowledgeBy: z.string(),
  edits: EditedShape.optional(),
});
export type Released = z.infer<typeof ReleasedShape>;

export const SavedArtifactShape = z.object({
  id: Uuid,
  kind: z.string(),
  textSha256: Digest,
  createdAt: z.string(),
  decision: z.string(),
});
export type SavedArtifact = z.infer<typeof SavedArtifactShape>;

/** What owners are asked for: whether these bytes may go there. */
export const AskedReleaseShape = z.object({
  id: Uuid,
  status: z.string(),
  /** How many are asked. */
  owners: Count,
  expiresAt: z.string(),
});
export type AskedRelease = z.infer<typeof AskedReleaseShape>;
