/** Why the embedded server does not run. The message says what mends it. */
export class EmbeddedError extends Error {
  readonly code: 'no-binaries' | 'no-account' | 'other-version' | 'not-started';

  constructor(code: EmbeddedError['code'], message: string) {
    super(message);
    this.name = 'EmbeddedError';
    this.code = code;
  }
}
