/** The components of a session, and the results of a sync. */
import type { Digester } from "@deltaloop/kube/pod-template";
import type { Release } from "@deltaloop/kube/releases";
import type { Controller } from "@deltaloop/kube/objects";
import type { CacheRegistry } from "../cache/cache-registry.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { AnyTaken, Doorbells, Snapshot, Store, Taken } from "@deltaloop/store/ports";
import type { KubeReader } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import type { LeaseProof } from "./lease-proof.ts";
import type { WriteGateway } from "./write-gateway/gateway.ts";
import type { ReadYourWrites } from "./read-your-writes.ts";
import type { Reason } from "./reason.ts";
import type { Replaced } from "./replaced.ts";
import type { EventNote, Write } from "./writes.ts";

/** The dependencies of a sync. */
export interface SyncPorts {
  readonly store: Pick<Store, "readIndex" | "readSlices" | "registerIntents" | "writeThrough" | "correlateEvents" | "markSuspect">;
  readonly reader: KubeReader;
  readonly gateway: WriteGateway;
  readonly doorbells: Doorbells;
  readonly digester: Digester;
  /** Every controller's events table: a write of one may affect keys of another (shared/controllers/registry/registry.ts). */
  readonly registry: CacheRegistry;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** One per process. Absent if no proof is required (shadow mode, replay). */
  readonly proof?: LeaseProof;
  /** One per invocation. If absent, every owner is read live. */
  readonly readYourWrites?: ReadYourWrites;
  /** Reports a sync's decisions to users and replays, before anything is sent. */
  readonly trace?: (line: TraceLine) => void;
}

export type TraceLine = { readonly controller: Controller; readonly key: string } & (
  | { readonly kind: "started" }
  /** The reason of the next writes, or of their absence. */
  | { readonly kind: "reason"; readonly reason: Reason }
  | { readonly kind: "decided"; readonly write: Write; readonly replaced?: Replaced }
  | { readonly kind: "event"; readonly note: EventNote }
  /** Decisions that depend on the response to a write, which shadow mode does not send. */
  | { readonly kind: "notDecided"; readonly what: string }
  | { readonly kind: "ended"; readonly outcome: "ok" | "retry" | "requeueAfter" | "drop"; readonly error?: string }
);

/** One take of one key. */
export interface Run extends Taken {
  readonly snapshot: Snapshot;
  /** The release that the cluster runs. Absent where no watcher publishes one, as in tests: OWN_RELEASE. */
  readonly release?: Release;
  /**
   * Whether an API write may start now: this run holds the lease, which ends more than one request timeout + 1 s from now, and so does
   * the invocation.
   */
  mayWrite(): boolean;
}

/** One take of one key of a user controller. */
export type OwnRun = Omit<Run, "controller"> & AnyTaken;

export type Succeeded = { readonly kind: "done" } | { readonly kind: "again"; readonly afterMs: number };

/** A sync may also throw: the key is then retried with back-off. */
export type SyncResult =
  | Succeeded
  /**
   * Equivalent to throwing `error`, but the key is retried after `afterMs` at the latest, because a deadline must not wait for the
   * back-off.
   */
  | { readonly kind: "failed"; readonly error: Error; readonly afterMs: number };
