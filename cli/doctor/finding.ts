/** The findings of `doctor`, and the table of its checks. Names and units are stable in `-o json`. */

export type State = "failure" | "warning" | "notChecked" | "ok";

export interface Finding {
  readonly check: Check;
  /** The role, queue, controller or resource, if there are several. */
  readonly of?: string;
  readonly state: State;
  /** The observation; the reason of `notChecked`. */
  readonly seen: string;
  /** The measured number, in the check's unit. */
  readonly number?: number;
  /** The remedy, in one sentence; only for failures and warnings. */
  readonly remedy?: string;
}

interface CheckInfo {
  /** Heading in the report; the report has this order. */
  readonly section: "API server" | "permissions" | "clock" | "Redis" | "queues" | "watcher" | "cache" | "work";
  readonly looked: string;
  /** Unit of `number`. */
  readonly unit?: string;
}

/** All checks, in the order of the report. */
export const CHECKS = {
  "api.answers": { section: "API server", looked: "GET /version", unit: "ms" },
  "api.version": { section: "API server", looked: "its version", unit: "minor version" },
  "api.cluster": {
    section: "API server",
    looked: "uid of namespace kube-system against DELTALOOP_CLUSTER, or the epoch of a listed cluster",
  },
  permissions: { section: "permissions", looked: "a SelfSubjectAccessReview for each permission of a role", unit: "missing permissions" },
  "clock.local": { section: "clock", looked: "this machine's clock against the API server's Date", unit: "ms ahead" },
  "clock.redis": { section: "clock", looked: "Redis' TIME against the API server's Date", unit: "ms ahead" },
  "redis.answers": { section: "Redis", looked: "INFO and TIME", unit: "ms" },
  "redis.version": { section: "Redis", looked: "redis_version" },
  "redis.role": { section: "Redis", looked: "role, loading" },
  "redis.policy": { section: "Redis", looked: "maxmemory_policy" },
  "redis.evicted": { section: "Redis", looked: "evicted_keys since Redis started", unit: "keys" },
  "redis.memory": { section: "Redis", looked: "used_memory against maxmemory", unit: "percent" },
  "redis.replicas": { section: "Redis", looked: "connected_slaves against DELTALOOP_REDIS_DURABILITY", unit: "replicas" },
  "redis.persistence": { section: "Redis", looked: "aof_enabled, status of the last save" },
  "queue.answers": { section: "queues", looked: "GetQueueAttributes", unit: "ms" },
  "queue.settings": { section: "queues", looked: "attributes against infra/queues.yml", unit: "differences" },
  "queue.redrive": { section: "queues", looked: "the redrive policy", unit: "receives" },
  "queue.depth": { section: "queues", looked: "waiting messages (only CloudWatch has their age)", unit: "messages" },
  "queue.deadLetters": { section: "queues", looked: "messages in the dead-letter queue", unit: "messages" },
  "watcher.mode": { section: "watcher", looked: "DELTALOOP_MODE" },
  "watcher.lease": { section: "watcher", looked: "the Lease, by the API server's clock", unit: "s since it was renewed" },
  "watcher.guard": { section: "watcher", looked: "writes of another controller, DELTALOOP_GUARD" },
  "watcher.fence": { section: "watcher", looked: "the fence in Redis against the Lease's resourceVersion" },
  "watcher.lineage": { section: "watcher", looked: "whether another cluster shares the cache" },
  "cache.epoch": { section: "cache", looked: "the epoch" },
  "cache.gate": { section: "cache", looked: "the gate of a controller" },
  "cache.lag": {
    section: "cache",
    looked: "state of a resource, its lane that was silent longest, sent and applied versions",
    unit: "s",
  },
  "cache.lanes": { section: "cache", looked: "lanes with a hole, frozen lanes", unit: "lanes" },
  "cache.quarantine": { section: "cache", looked: "quarantined items of the last day", unit: "objects or messages" },
  "cache.forged": { section: "cache", looked: "messages of the last day with an invalid MAC", unit: "messages" },
  "cache.audit": { section: "cache", looked: "each object and its row (--audit)", unit: "differences" },
  "work.due": { section: "work", looked: "the key that is due longest, without a running sync", unit: "s" },
  "work.failing": { section: "work", looked: "keys that failed at least five times in a row", unit: "keys" },
  "work.parked": { section: "work", looked: "parked keys", unit: "keys" },
  "work.intents": { section: "work", looked: "recorded calls without a response", unit: "intents" },
} as const satisfies Readonly<Record<string, CheckInfo>>;

export type Check = keyof typeof CHECKS;

type More = Pick<Finding, "of" | "number">;

export function ok(check: Check, seen: string, more: More = {}): Finding {
  return { check, ...more, state: "ok", seen };
}

export function warning(check: Check, seen: string, remedy: string, more: More = {}): Finding {
  return { check, ...more, state: "warning", seen, remedy };
}

export function failure(check: Check, seen: string, remedy: string, more: More = {}): Finding {
  return { check, ...more, state: "failure", seen, remedy };
}

export function notChecked(check: Check, why: string, more: More = {}): Finding {
  return { check, ...more, state: "notChecked", seen: why };
}
