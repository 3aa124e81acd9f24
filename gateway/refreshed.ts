/** A value that is read anew as it ages, and once more when something is not in it. */
export interface Refreshed<Value> {
  /** The value, read anew first if that is due. Throws what the reading threw if there is none to use. */
  current(): Promise<Value>;
  /**
   * The value read anew, because something is not in it; as it is, if that was done within the cool-down.
   * Throws what the reading threw.
   */
  again(): Promise<Value>;
}

export interface RefreshedTimes {
  /** So old may a value be before it is read anew. */
  readonly freshSeconds: number;
  /** So old may a value be when it cannot be read anew. As `freshSeconds` unless given. */
  readonly usableSeconds?: number;
  /** Between two readings that {@link Refreshed.again} asks for. */
  readonly coolDownSeconds: number;
  /** After a reading that failed, until the next one. None unless given. */
  readonly retrySeconds?: number;
}

/**
 * Keeps what `read` gives. Ages count from the moment a reading began, so that a change which was made
 * before is seen no later than after `freshSeconds`. Readings never run beside each other.
 */
export function refreshed<Value>(
  read: () => Promise<Value>,
  { freshSeconds, usableSeconds = freshSeconds, coolDownSeconds, retrySeconds = 0 }: RefreshedTimes,
): Refreshed<Value> {
  let held: { readonly value: Value; readonly at: number } | undefined;
  let failed: { readonly error: unknown; readonly at: number } | undefined;
  let reading: Promise<Value> | undefined;
  let asking: Promise<Value> | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  const secondsSince = (moment: number) => (performance.now() - moment) / 1000;

  async function readNow(): Promise<Value> {
    const at = performance.now();
    try {
      const value = await read();
      held = { value, at };
      failed = undefined;
      return value;
    } catch (error) {
      failed = { error, at: performance.now() };
      throw error;
    }
  }

  async function readOnce(): Promise<Value> {
    if (failed !== undefined && secondsSince(failed.at) < retrySeconds) throw failed.error;
    reading ??= readNow().finally(() => (reading = undefined));
    return reading;
  }

  async function current(): Promise<Value> {
    if (held !== undefined && secondsSince(held.at) < freshSeconds) return held.value;
    try {
      return await readOnce();
    } catch (error) {
      if (held !== undefined && secondsSince(held.at) < usableSeconds) return held.value;
      throw error;
    }
  }

  async function readAgain(): Promise<Value> {
    // One that is under way may have begun before the change that is looked for.
    await reading?.catch(() => undefined);
    return readOnce();
  }

  async function asItIs(): Promise<Value> {
    if (failed !== undefined) throw failed.error;
    return current();
  }

  return {
    current,
    again() {
      if (asking !== undefined) return asking;
      if (secondsSince(askedAt) < coolDownSeconds) return asItIs();
      askedAt = performance.now();
      asking = readAgain().finally(() => (asking = undefined));
      return asking;
    },
  };
}
