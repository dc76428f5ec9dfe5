/** Which MAC keys rows and entries are signed with (docs/internals/threat-model.md). */
import type { CachedResource } from "@deltaloop/kube/objects";

/** What of the current epoch is signed with which key. Texts, not objects: an object has a row and an entry, or a tombstone. */
export interface KeyUse {
  readonly current: number;
  /** Signed with a key that is accepted and signs no more. */
  readonly former: number;
  /** Of a key that is not accepted, or forged: A14 replaces it when its object is next looked at. */
  readonly foreign: number;
  /**
   * Entries that are signed and whose row is not there: somebody put back what was deleted, and the owner counts an object that does
   * not exist. No rule of the index finds these, since nothing looks from an entry to its row.
   */
  readonly ghosts: number;
  /** Rows whose entry is not there: their objects are hidden from their owners until their next event, which puts them back (A14). */
  readonly hidden: number;
}

export interface KeyStore {
  /**
   * Counts all of `resource`: rows, tombstones, and the entries of slices that anybody may read. With `mend`, what a former key has
   * signed is signed anew, and ghosts are taken away and their owners queued: each only if exactly what was found stands there still,
   * so nothing that is written meanwhile is lost, and what was is found by the next look. Answers what was found before.
   */
  keyUse(resource: CachedResource, mend: boolean): Promise<KeyUse>;
}
