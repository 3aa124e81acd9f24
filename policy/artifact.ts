import type { Visibility } from './fact.ts';
import type { World } from './world.ts';

/** The most sensitive first: fewer read what is for members. */
const SENSITIVITIES: readonly Visibility[] = ['members', 'project', 'organization'];

/** An artifact is at least as sensitive as the most sensitive of what it was made from, as that is now. */
export function sensitivityOf(world: World, artifact: string): Visibility {
  const homes = (world.lineages.get(artifact) ?? []).map((source) =>
    'artifact' in source ? homeOf(world, source.artifact) : source.conversation,
  );
  const visibilities = new Set(
    homes.map((home) => home && world.conversations.get(home)?.visibility),
  );
  return SENSITIVITIES.find((visibility) => visibilities.has(visibility)) ?? 'organization';
}

/**
 * Whether something that an artifact was made from has changed: a source was edited or deleted since it was read, or an
 * artifact among the sources is stale or deleted, at whatever remove. What it has of a delivery was read by that one.
 */
export function isStale(world: World, artifact: string): boolean {
  const made = new Set([artifact]);
  // A set's iteration goes on over what is added to it.
  for (const id of made) {
    for (const source of world.lineages.get(id) ?? []) {
      if ('artifact' in source) {
        if (isGone(world.artifacts.find((one) => one.id === source.artifact))) return true;
        made.add(source.artifact);
      } else if (source.toSeq === undefined) {
        if (isGone(world.conversations.get(source.conversation))) return true;
      } else {
        const message = world.messages.find(
          ({ conversation, seq }) => conversation === source.conversation && seq === source.fromSeq,
        );
        if (isGone(message) || source.editedSince === true) return true;
      }
    }
  }
  return false;
}

function homeOf(world: World, artifact: string) {
  return world.artifacts.find(({ id }) => id === artifact)?.home;
}

function isGone(thing: { readonly deleted: boolean } | undefined): boolean {
  return thing === undefined || thing.deleted;
}
