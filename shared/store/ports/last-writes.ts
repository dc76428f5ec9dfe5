/**
 * The last write of a user controller to an object, which lets the controller omit writes that would change nothing. Stored with the
 * primary's intents, read by `take` in the same step as the snapshot, and deleted with the primary (IT4). A missing or forged record costs
 * one request that changes nothing.
 */
export interface LastWriteRecord {
  /** The object's uid, or its start: `content` covers the uid. */
  readonly uid: string;
  /** Keyed digest of the request. */
  readonly sent: string;
  /** Keyed digest of the content of the response. */
  readonly content: string;
  readonly revertsMs: readonly number[];
  /** The digest that `sent` replaced, with its time and the primary's generation. */
  readonly replaced?: { readonly sent: string; readonly atMs: number; readonly generation: number };
}

/** A record to store under an id of the caller; without `record` it is removed. */
export interface RecordChange {
  readonly id: string;
  readonly record?: LastWriteRecord;
}
