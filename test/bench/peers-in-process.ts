import {
  preparsePolicySet,
  statefulIsAuthorized,
  type EntityJson,
} from '@cedar-policy/cedar-wasm/nodejs';
import { newEnforcer, newModelFromString } from 'casbin';
import type { Audience } from './audiences.ts';
import type { Answer, Shape } from './earshot-scope.ts';
import { candidatesOf, floorOf, type FactsInProcess } from './facts-in-process.ts';
import { isOfPeople } from './peers-sql.ts';

/** Whether a user may read a conversation. */
type Decide = (user: string, conversation: string) => boolean;

const withoutGuests: Shape['suits'] = (group) =>
  isOfPeople(group) && group.kind !== 'guest' && group.size <= 20;

function decidingShape(name: string, about: string, facts: FactsInProcess, decide: Decide): Shape {
  function ask({ users, bound }: Audience): Promise<Answer> {
    const [first = '', ...others] = users.toSorted((a, b) => reachOf(facts, a) - reachOf(facts, b));
    const kept = candidatesOf(facts, first).filter(
      (id) =>
        (bound === null || facts.conversations.get(id)?.project === bound) &&
        [first, ...others].every((user) => decide(user, id)),
    );
    const floors = kept.map((id): [string, string] => {
      const each = users.map((user) => floorOf(facts, user, id));
      return [id, each.reduce((a, b) => (a > b ? a : b)).toString()];
    });
    return Promise.resolve(new Map(floors));
  }
  return { name, about, suits: withoutGuests, answer: ask, ask };
}

function reachOf(facts: FactsInProcess, user: string): number {
  return facts.memberships.get(user)?.size ?? 0;
}

const POLICIES = `
  permit (principal is User, action == Action::"read", resource is Conversation)
  when { resource.members.contains(principal) };
  permit (principal is User, action == Action::"read", resource is Conversation)
  when { resource has openTo && principal in resource.openTo };`;

/**
 * Cedar in the process: policies parsed once, and for each decision the entities that it is about, ready
 * made. A decision is asked for each reader and each conversation of the reader with the fewest, until
 * one denies.
 */
export function cedarShape(facts: FactsInProcess): Shape {
  const parsed = preparsePolicySet('earshot-bench', { staticPolicies: POLICIES });
  if (parsed.type === 'failure') throw new Error(JSON.stringify(parsed.errors));
  const users = new Map<string, EntityJson>();
  const conversations = new Map<string, EntityJson>();
  const entity = (type: string, id: string) => ({ __entity: { type, id } });

  function userEntity(id: string): EntityJson {
    const known = users.get(id) ?? {
      uid: { type: 'User', id },
      attrs: {},
      parents: (facts.projects.get(id) ?? []).map((project) => ({ type: 'Project', id: project })),
    };
    users.set(id, known);
    return known;
  }
  function conversationEntity(id: string): EntityJson {
    const fact = facts.conversations.get(id);
    const known = conversations.get(id) ?? {
      uid: { type: 'Conversation', id },
      attrs: {
        members: (fact?.members ?? []).map((member) => entity('User', member)),
        ...(fact?.openTo !== undefined && { openTo: entity('Project', fact.openTo) }),
      },
      parents: [],
    };
    conversations.set(id, known);
    return known;
  }
  return decidingShape(
    'Cedar',
    '@cedar-policy/cedar-wasm in the process: policies parsed once, the entities of each decision ready in memory; floors by the application; up to 20 readers, without guests',
    facts,
    (user, conversation) => {
      const answer = statefulIsAuthorized({
        principal: { type: 'User', id: user },
        action: { type: 'Action', id: 'read' },
        resource: { type: 'Conversation', id: conversation },
        context: {},
        preparsedPolicySetId: 'earshot-bench',
        entities: [userEntity(user), conversationEntity(conversation)],
      });
      if (answer.type === 'failure') throw new Error(JSON.stringify(answer.errors));
      return answer.response.decision === 'allow';
    },
  );
}

const MODEL = `
[request_definition]
r = sub, obj
[policy_definition]
p = sub, obj
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, r.obj)`;

/** casbin in memory: a conversation is a role that its members and its project have. */
export async function casbinShape(facts: FactsInProcess): Promise<Shape> {
  const enforcer = await newEnforcer(newModelFromString(MODEL));
  enforcer.enableAutoBuildRoleLinks(false);
  await enforcer.addPolicy('any', 'any');
  const links = [
    ...[...facts.memberships].flatMap(([user, held]) =>
      [...held.keys()].map((id) => [`u:${user}`, `c:${id}`]),
    ),
    ...[...facts.projects].flatMap(([user, held]) => held.map((id) => [`u:${user}`, `p:${id}`])),
    ...[...facts.conversations].flatMap(([id, { openTo }]) =>
      openTo === undefined ? [] : [[`p:${openTo}`, `c:${id}`]],
    ),
  ];
  await enforcer.addGroupingPolicies(links);
  await enforcer.buildRoleLinks();
  return decidingShape(
    'casbin',
    'casbin in memory: a conversation is a role of its members and of its project, read once and kept by nobody; floors by the application; up to 20 readers, without guests',
    facts,
    (user, conversation) => enforcer.enforceSync(`u:${user}`, `c:${conversation}`),
  );
}
