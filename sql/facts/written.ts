/** What became of one fact. */
export interface Written {
  readonly ok: true;
  readonly outcome:
    | 'created'
    | 'updated'
    | 'unchanged'
    | 'deleted'
    | 'removed'
    | 'opened'
    | 'admitted'
    | 'appended'
    | 'edited'
    /** Kept apart, unreadable: it was sent before the newest join. */
    | 'late'
    /** It was deleted before, and stays so. */
    | 'gone';
  /** The sequence of a message that has one. */
  readonly seq?: bigint;
}
