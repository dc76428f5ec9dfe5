/** Counts which MAC keys signed rows and entries (docs/internals/threat-model.md). */
import type { View } from "@deltaloop/kube/objects";

/** Number of texts of the current epoch per signing key. Texts, not objects: an object has a row and an entry, or a tombstone. */
export interface KeyUse {
  readonly current: number;
  /** Signed with a former key, which is accepted but no longer signs. */
  readonly former: number;
  /** Signed with an unknown key, or forged: A14 replaces it when its object is next read. */
  readonly foreign: number;
  /**
   * Signed entries without a row: a deleted entry was restored, and the owner counts an object that does not exist. No other rule of the
   * index finds them, because look-ups go from rows to entries.
   */
  readonly ghosts: number;
  /** Rows without an entry: their objects are hidden from their owners until their next event, which restores them (A14). */
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
