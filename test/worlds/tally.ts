import { isStale } from '../../policy/artifact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { readsByProject } from '../../policy/reader.ts';
import type { Scope } from '../../policy/scope.ts';
import type { Standing } from './differential.ts';
import type { TurnCase } from './plain-standing.ts';
import type { TestText, TestWorld } from './world-generator.ts';

/** Counts what the worlds of a run contained, so that a run that compared nothing but nothings is seen. */
export class Tally {
  readonly #counts = new Map<string, number>();

  count(what: string): void {
    this.#counts.set(what, this.of(what) + 1);
  }

  of(what: string): number {
    return this.#counts.get(what) ?? 0;
  }

  get counts(): ReadonlyMap<string, number> {
    return new Map([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  scope(
    world: TestWorld,
    { destination }: TurnCase,
    { mode, audience }: Standing,
    scope: Scope,
    seen: readonly TestText[],
    recipient: ExternalId | undefined,
  ): void {
    if (recipient !== undefined) {
      this.count(`recipient ${scope.size === 0 ? 'reads nothing' : 'reads something'}`);
      return;
    }
    this.count(`scope ${mode.mode}`);
    if (mode.extent === 'audience') {
      this.count('intersection');
      if (audience.readers.length > 1) this.count('intersection of several');
      const elsewhere = [...scope.keys()].filter((id) => id !== destination.id);
      if (elsewhere.length > 0) this.count(`intersection beyond the destination`);
      if (elsewhere.length > 0 && audience.readers.length > 1)
        this.count('intersection of several beyond the destination');
      if (mode.projectBound !== undefined && elsewhere.length > 0)
        this.count('bound beyond the destination');
      if (elsewhere.length > 0 && mode.mode === 'guest') this.count('guest beyond the destination');
      const open = elsewhere.filter(
        (id) => world.conversations.get(id)?.visibility === 'organization',
      );
      if (open.length > 0) this.count('open beyond the destination');
      if (
        open.some((id) => (scope.get(id) ?? 0n) < (world.conversations.get(id)?.defaultFloor ?? 0n))
      ) {
        this.count('open with an overriding membership');
      }
      const byProject = elsewhere.some((id) => {
        const conversation = world.conversations.get(id);
        return (
          conversation !== undefined &&
          [...world.users.values()].some((user) => readsByProject(world, user, conversation))
        );
      });
      if (byProject) this.count('project route beyond the destination');
    }
    const seenIds = new Set(seen.map(({ artifact }) => artifact?.id));
    for (const { id, home, deleted } of world.artifacts) {
      const visible = seenIds.has(id) ? 'visible' : 'hidden';
      this.count(`artifact ${visible}`);
      // Hidden by its lineage alone.
      if (scope.has(home) && !deleted) this.count(`artifact at home in scope ${visible}`);
      const lineage = world.lineages.get(id) ?? [];
      const homes = new Set(
        lineage.map((source) => 'conversation' in source && source.conversation),
      );
      if (homes.size > 1) this.count(`artifact of several conversations ${visible}`);
      if (isStale(world, id)) this.count(`stale artifact ${visible}`);
      if (lineage.some((source) => 'artifact' in source))
        this.count(`artifact of another ${visible}`);
    }
    const seenSet = new Set<unknown>(seen);
    for (const message of world.messages) {
      const visible = seenSet.has(message) ? 'visible' : 'hidden';
      this.count(`message ${visible}`);
      const floor = scope.get(message.conversation);
      if (floor === undefined || message.deleted || message.seq < floor) continue;
      if (message.delivery !== undefined) this.count(`delivered message ${visible}`);
      else if (message.author !== undefined && 'persona' in message.author)
        this.count(`undelivered persona message ${visible}`);
    }
  }
}
