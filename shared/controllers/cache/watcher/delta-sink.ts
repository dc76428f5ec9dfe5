/** Where a resource stream puts what it saw. The lane sender is one; capture and tests have their own. */
import type { Cached, ObjectKey } from "@deltaloop/kube/objects";
import type { ManifestRow } from "@deltaloop/store/ports";

export interface SinkItem {
  readonly type: "A" | "M" | "D";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** For a delete, the last state. */
  readonly object: Cached;
  /** In all likelihood an own write, which the cache knows already (own-write.ts): it may wait for company. */
  readonly isOwn?: true;
}

export interface DeltaSink {
  live(item: SinkItem): void;
  /** An object of a list at `listRV`. */
  listed(item: SinkItem, listRV: string, generation: number): void;
  /** Every object of the resource at `listRV`, whether its payload was sent or not. `rows` may be read more than once. */
  manifest(listRV: string, rows: Iterable<ManifestRow>, generation: number): void;
  /** Everything up to `rv` has been handed over. */
  watermark(rv: string): void;
  /** Resolves once there is room for more. */
  room(signal: AbortSignal): Promise<void>;
}
