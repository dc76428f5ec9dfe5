/**
 * What an additional controller last wrote to an object, so that it sends nothing without a reason. Stored with the primary's intents,
 * read by `take` in the same step as the snapshot, and deleted with the primary (IT4). A record that is missing or forged costs one request
 * that changes nothing.
 */
export interface LastWriteRecord {
  readonly uid: string;
  /** Keyed digest of what was sent. */
  readonly sent: string;
  /** Keyed digest of the content of the answer. */
  readonly content: string;
  readonly revertsMs: readonly number[];
}

/** A record to store under an id of the caller; without `record` it is removed. */
export interface RecordChange {
  readonly id: string;
  readonly record?: LastWriteRecord;
}
