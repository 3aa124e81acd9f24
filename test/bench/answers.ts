import type { Audience, AudienceGroup } from './audiences.ts';
import type { Answer, Shape } from './earshot-scope.ts';

/** Two shapes answered one question differently: the bench measures nothing then. */
export class DifferentAnswers extends Error {}

/**
 * Asks every shape about every audience that it suits and compares the answers.
 *
 * @param say is told each group that is begun: with many readers the slower shapes take their time
 * @returns how many answers were compared
 * @throws {DifferentAnswers} which says where they part
 */
export async function compareAnswers(
  [reference, ...others]: readonly [Shape, ...Shape[]],
  groups: readonly AudienceGroup[],
  say: (line: string) => void,
): Promise<number> {
  let compared = 0;
  for (const group of groups) {
    say(`Comparing the answers for ${group.name}.`);
    for (const audience of group.audiences) {
      const expected = await reference.answer(audience);
      for (const shape of others.filter((other) => other.suits(group))) {
        const difference = differenceOf(expected, await shape.answer(audience));
        if (difference !== undefined)
          throw new DifferentAnswers(
            `${shape.name} and ${reference.name} differ for ${audience.name}: ${difference}`,
          );
        compared++;
      }
    }
  }
  return compared;
}

/** How many conversations are in the scopes of a group, the fewest and the most. */
export async function scopeSizes(
  reference: Shape,
  group: { readonly audiences: readonly Audience[] },
): Promise<[number, number]> {
  const sizes: number[] = [];
  for (const audience of group.audiences) sizes.push((await reference.answer(audience)).size);
  return [Math.min(...sizes), Math.max(...sizes)];
}

function differenceOf(expected: Answer, found: Answer): string | undefined {
  const parts = [
    listed(
      'lacks',
      [...expected.keys()].filter((id) => !found.has(id)),
    ),
    listed(
      'adds',
      [...found.keys()].filter((id) => !expected.has(id)),
    ),
    listed(
      'has another floor for',
      [...expected]
        .filter(([id, floor]) => (found.get(id) ?? floor) !== floor)
        .map(([id, floor]) => `${id} (${found.get(id)} for ${floor})`),
    ),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join('; ');
}

function listed(what: string, names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined;
  return `${what} ${names.length}: ${names.slice(0, 5).join(', ')}`;
}
