/** Destination of a resource stream's events: the lane sender, a capture file, or a test. */
import type { Cached, ObjectKey, View } from "@deltaloop/kube/objects";
import type { ManifestRow } from "@deltaloop/store/ports";

export interface SinkItem {
  readonly type: "A" | "M" | "D";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** For a delete, the last state. */
  readonly object: Cached<View>;
  /** Probably an own write, which the cache already has (own-write.ts): allows a longer batching window. */
  readonly isOwn?: true;
}

export interface DeltaSink {
  live(item: SinkItem): void;
  /** Reports that all events of one read of the watch are in the sink. */
  readDone?(): void;
  /** Adds an object of a list at `listRV`. */
  listed(item: SinkItem, listRV: string, generation: number): void;
  /** Ends a list: `rows` has every object of the resource at `listRV`, also those that were not sent. It can be iterated more than once. */
  manifest(listRV: string, rows: Iterable<ManifestRow>, generation: number): void;
  /** Reports that every event up to `rv` is in the sink. */
  watermark(rv: string): void;
  /** Resolves once there is room for more. */
  room(signal: AbortSignal): Promise<void>;
}
