/** The facts that the probes collect (look.ts) and the checks read (judge*.ts), as plain data that tests can list in tables. */
import type { Durability, OwnerIntents, StreamFacts, RedisServerFacts } from "@deltaloop/store/redis";
import type { QueueFacts } from "@deltaloop/store/sqs";
import type { CachedResource, Controller } from "@deltaloop/kube/objects";
import type { Audit } from "@deltaloop/controllers/cache";
import type {
  EpochRecord,
  EpochStore,
  Forgery,
  GuardState,
  ParkedKey,
  QuarantineEntry,
  TermToken,
  WorkQueue,
} from "@deltaloop/store/ports";
import type { ClusterIdentity } from "@deltaloop/kube/client";
import type { Right } from "../cluster/rights.ts";

/** A result, or the reason for its absence. */
export type Seen<T> =
  | { readonly kind: "seen"; readonly value: T; readonly tookMs: number; readonly atMs: number }
  | { readonly kind: "unseen"; readonly why: string };

export interface Facts {
  readonly mode: "act" | "shadow";
  readonly guard: "on" | "off";
  readonly kubernetes: "supported" | "any";
  readonly cluster: string;
  readonly redisCluster: boolean;
  readonly durability: Durability;
  readonly api: ApiFacts;
  readonly roles: readonly RoleFacts[];
  readonly server: Seen<RedisServerFacts & { readonly timeMs: number }>;
  readonly queues: readonly QueueSight[];
  readonly cache: CacheFacts;
  /** Absent without --audit. */
  readonly audits?: readonly AuditFacts[];
}

export interface AuditFacts {
  readonly resource: CachedResource;
  readonly seen: Seen<Audit>;
}

export interface ApiFacts {
  readonly version: Seen<{ readonly server: string; readonly gitVersion: string; readonly dateMs?: number }>;
  readonly identity: Seen<ClusterIdentity>;
  /** The watcher's Lease; `name` is `<namespace>/<name>`. */
  readonly lease: { readonly name: string; readonly seen: Seen<LeaseFacts | undefined> };
  /** Whether the guard's canary ReplicaSet exists, whose status any other active controller would write. */
  readonly canary: { readonly name: string; readonly seen: Seen<boolean> };
}

export interface LeaseFacts {
  readonly resourceVersion: string;
  /** Empty: the Lease was released. */
  readonly holder: string;
  readonly renewedAtMs: number;
  readonly durationSeconds: number;
  /** Terms of the watchers that have led (informer §11.11). */
  readonly terms: readonly TermToken[];
}

/** The permissions of a role that the available credentials have. */
export interface RoleFacts {
  readonly role: string;
  readonly seen: Seen<{ readonly user: string; readonly rights: readonly Right[] }>;
}

export interface QueueSight {
  /** `deltas` or a controller. */
  readonly name: string;
  readonly seen: Seen<QueueFacts>;
  /** The dead-letter queue; undefined if the queue has no redrive policy. */
  readonly deadLetters: Seen<QueueFacts | undefined>;
}

export interface CacheFacts {
  readonly epoch: Seen<EpochRecord | undefined>;
  readonly lineage: Seen<Awaited<ReturnType<EpochStore["lineage"]>>>;
  readonly streams: Seen<readonly StreamFacts[]>;
  readonly quarantine: Seen<readonly QuarantineEntry[]>;
  readonly forgeries: Seen<readonly Forgery[]>;
  readonly guard: Seen<GuardState>;
  readonly intents: Seen<{ readonly owners: number; readonly found: readonly OwnerIntents[] }>;
  readonly controllers: readonly ControllerFacts[];
}

export interface ControllerFacts {
  readonly controller: Controller;
  readonly gate: Seen<Awaited<ReturnType<EpochStore["gate"]>>>;
  readonly queued: Seen<Awaited<ReturnType<WorkQueue["queued"]>>>;
  readonly parked: Seen<readonly ParkedKey[]>;
}
