/** Counts which MAC keys signed rows and entries (docs/internals/threat-model.md). */
import type { View } from "@deltaloop/kube/objects";

/**
 * Number of signed texts of the current epoch by signing key. An object has two, a row and an entry; a deleted one may have a tombstone.
 */
export interface KeyUse {
  readonly current: number;
  /** Signed with a former key, which is accepted but no longer signs. */
  readonly former: number;
  /** Signed with an unknown key, or forged: A14 replaces it when its object is next read. */
  readonly foreign: number;
  /**
   * Signed index entries without a row: another client has restored a deleted entry, and the owner would count a deleted object. No
   * other read finds them, because look-ups go from rows to entries.
   */
  readonly ghosts: number;
  /** Rows without an index entry: their objects are hidden from their owners until their next event, which restores them (A14). */
  readonly hidden: number;
}

export interface KeyStore {
  /**
   * Counts all of `resource`: rows, tombstones, and the entries of readable slices. With `repair`, texts of former keys are signed again,
   * and ghosts are removed and their owners enqueued. Each text is changed only if it is unchanged since it was read, so no concurrent
   * write is lost; the next call repairs the rest. Returns the counts from before.
   */
  keyUse(resource: View, repair: boolean): Promise<KeyUse>;
}
