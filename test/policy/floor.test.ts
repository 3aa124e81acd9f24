import { expect, test } from 'vitest';
import { ALL_HISTORY, highestFloor, lowestRoute, NO_HISTORY } from '../../policy/floor.ts';

test('a person reads from the lowest of the routes there are', () => {
  expect(lowestRoute([5n, 2n, 9n])).toBe(2n);
  expect(lowestRoute([undefined, 7n, undefined])).toBe(7n);
});

test('no route is no floor, never a low number', () => {
  expect(lowestRoute([])).toBeUndefined();
  expect(lowestRoute([undefined, undefined])).toBeUndefined();
});

test('several readers read from the highest of their floors', () => {
  expect(highestFloor([1n, 4n, 2n])).toBe(4n);
  expect(highestFloor([1n, NO_HISTORY])).toBe(NO_HISTORY);
});

test('one reader without a floor leaves no floor, wherever that reader stands', () => {
  expect(highestFloor([undefined, 1n])).toBeUndefined();
  expect(highestFloor([1n, undefined, 2n])).toBeUndefined();
});

test('nobody reads nothing', () => {
  expect(highestFloor([])).toBeUndefined();
});

test('no history is above every sequence, and all history below none', () => {
  expect(NO_HISTORY).toBe(2n ** 63n - 1n);
  expect(ALL_HISTORY).toBe(1n);
});
