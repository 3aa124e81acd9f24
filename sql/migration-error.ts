/** Why a database cannot be brought up to this release. The message says what to change. */
export class MigrationError extends Error {
  /** The server is unsuitable; an applied migration has changed; the database is ahead; a role is not as it must be. */
  readonly code: 'server' | 'changed' | 'ahead' | 'roles';

  constructor(code: MigrationError['code'], message: string) {
    super(message);
    this.name = 'MigrationError';
    this.code = code;
  }
}
