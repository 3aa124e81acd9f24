interface Repaired {
  readonly text: string;
  readonly nul: number;
  readonly loneSurrogates: number;
}

/**
 * Makes free text storable: PostgreSQL has no U+0000, and a lone surrogate has no UTF-8. Never for
 * ids, where two could become one.
 */
export function repaired(text: string): Repaired {
  let nul = 0;
  let loneSurrogates = 0;
  const whole = text.replace(/\0|\p{Cs}/gu, (character) => {
    if (character === '\0') {
      nul += 1;
      return '';
    }
    loneSurrogates += 1;
    return '\uFFFD';
  });
  return { text: whole, nul, loneSurrogates };
}
