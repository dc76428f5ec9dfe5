/**
 * The doctor's findings for collected facts. Catches: a fault that is reported as healthy, a check that is wrong at its threshold, a
 * finding without a remedy, and an unavailable component that prevents checks of others.
 */
import { expect, it } from "vitest";

import type { CacheFacts, ControllerFacts, Facts, QueueSight } from "../../../../cli/doctor/facts.ts";
import { CHECKS } from "../../../../cli/doctor/finding.ts";
import type { Check, State } from "../../../../cli/doctor/finding.ts";
import { judge } from "../../../../cli/doctor/judge.ts";
import type { LaneFacts } from "../../../../shared/store/redis/inspect/probe.ts";
import type { RedisServerFacts } from "../../../../shared/store/redis/server.ts";
import type { Audit } from "../../../../shared/controllers/cache/watcher/audit.ts";
import type { QueueFacts } from "../../../../shared/store/sqs/queue-facts.ts";
import type { Intent, Stop } from "../../../../shared/store/ports/store.ts";
import { HEALTHY, NOW_MS, seen, unseen } from "./facts.ts";

/** The time of Redis in `HEALTHY`. */
const REDIS_MS = NOW_MS + 500;

const api = (change: Partial<Facts["api"]>): Facts => ({ ...HEALTHY, api: { ...HEALTHY.api, ...change } });
const apiSays = (gitVersion: string, dateMs: number = NOW_MS): Facts =>
  api({ version: seen({ server: "https://kube", gitVersion, dateMs }) });
const lease = (change: object): Facts =>
  api({
    lease: {
      name: "a/b",
      seen: seen({
        resourceVersion: "120",
        holder: "host-1",
        renewedAtMs: NOW_MS,
        durationSeconds: 15,
        terms: [{ term: "t1", count: 5 }],
        ...change,
      }),
    },
  });
/** The facts about a cluster of a directory: its id is not that of the API server. */
const listed = (change: Partial<Facts> = {}): Facts => ({ ...HEALTHY, cluster: "3a4e".repeat(8), ...change });
const role = (user: string, allowed: boolean): Facts => ({
  ...HEALTHY,
  roles: [{ role: "deltaloop-watcher", seen: seen({ user, rights: [{ role: "", what: "list pods", allowed }] }) }],
});
const OWN = "system:serviceaccount:deltaloop:deltaloop-watcher";
const redis = (change: Partial<RedisServerFacts & { timeMs: number }>, rest: Partial<Facts> = {}): Facts => {
  const { server } = HEALTHY;
  return { ...HEALTHY, ...rest, server: seen({ ...(server.kind === "seen" ? server.value : never()), ...change }) };
};
const queue = (name: string, change: (queue: QueueSight) => QueueSight): Facts => ({
  ...HEALTHY,
  queues: HEALTHY.queues.map((each) => (each.name === name ? change(each) : each)),
});
const queueSays = (name: string, change: Partial<QueueFacts>): Facts =>
  queue(name, (each) => ({ ...each, seen: seen({ ...(each.seen.kind === "seen" ? each.seen.value : never()), ...change }) }));
const attribute = (name: string, attributeName: string, value: string): Facts =>
  queue(name, (each) => {
    const facts = each.seen.kind === "seen" ? each.seen.value : never();
    return { ...each, seen: seen({ ...facts, attributes: { ...facts.attributes, [attributeName]: value } }) };
  });
const withoutRedrive = queue("deltas", (each) => {
  const { redrive: _gone, ...facts } = each.seen.kind === "seen" ? each.seen.value : never();
  return { ...each, seen: seen(facts), deadLetters: seen(undefined) };
});
const dead = (name: string): Facts =>
  queue(name, (each) => ({ ...each, deadLetters: seen({ waiting: 1, inFlight: 1, delayed: 0, attributes: {} }) }));
const cache = (change: Partial<CacheFacts>): Facts => ({ ...HEALTHY, cache: { ...HEALTHY.cache, ...change } });
const stopped = (stop: Stop): Facts => cache({ guard: seen({ stop, acceptedMs: 0, namespaces: new Map() }) });
const lanes = (change: Partial<LaneFacts>): Facts => {
  const streams = HEALTHY.cache.streams.kind === "seen" ? HEALTHY.cache.streams.value : never();
  return cache({
    streams: seen(
      streams.map((stream) => ({ ...stream, lanes: stream.lanes.map((lane, index) => (index === 0 ? { ...lane, ...change } : lane)) })),
    ),
  });
};
const untouched: Facts = cache({
  streams: seen([
    {
      resource: "deployments",
      state: "INIT",
      lanes: [
        { watermark: "1", frozen: false, appliedAtMs: REDIS_MS },
        { watermark: "0", frozen: false },
      ],
    },
  ]),
});
const fences = (...all: readonly string[]): Facts => {
  const streams = HEALTHY.cache.streams.kind === "seen" ? HEALTHY.cache.streams.value : never();
  return cache({ streams: seen(streams.map((stream, index) => ({ ...stream, fence: all[index] ?? all[0] ?? "" }))) });
};
const controller = (change: Partial<ControllerFacts>): Facts =>
  cache({ controllers: [{ controller: "replicaset", gate: seen({ open: true }), queued: seen([]), parked: seen([]), ...change }] });
const audited = (differences: Audit["differences"], unsettledLanes = 0): Facts => ({
  ...HEALTHY,
  audits: [{ resource: "pods", seen: seen({ resource: "pods", differences, compared: 3, unsettledLanes }) }],
});
const shut = (reason: string): Facts => controller({ gate: seen({ open: false, reason }) });
const queued = (...keys: readonly { readonly dueMs?: number; readonly leaseMs?: number; readonly failures?: number }[]): Facts =>
  controller({
    queued: seen(
      keys.map(({ dueMs, leaseMs, failures = 0 }, index) => ({
        key: `shop/web-${index}`,
        failures,
        ...(dueMs !== undefined && { readyAtMs: REDIS_MS - dueMs }),
        ...(leaseMs !== undefined && { leaseUntilMs: REDIS_MS + leaseMs }),
      })),
    ),
  });
const intent = (change: Partial<Intent>): Facts => {
  const one: Intent = { id: "c:web-1", verb: "create", name: "web-1", state: "pending", token: "t", deadlineMs: REDIS_MS, ...change };
  return cache({ intents: seen({ owners: 1, found: [{ controller: "replicaset", key: "shop/web", intents: [one] }] }) });
};
const quarantined = (atMs: number): Facts =>
  cache({ quarantine: seen([{ what: "shop/web-1", where: "delta queue", why: "no uid", atMs }]) });
const forged = (atMs: number): Facts => cache({ forgeries: seen([{ messageId: "m-1", where: "deltas", why: "no MAC", bytes: 9, atMs }]) });

const DAY_MS = 86_400_000;

interface Row {
  readonly name: string;
  readonly facts: Facts;
  readonly want: readonly [check: Check, state: State, said: RegExp, remedy?: RegExp];
}

const ROWS: readonly Row[] = [
  {
    name: "an audit that timed out",
    facts: { ...HEALTHY, audits: [{ resource: "pods", seen: unseen("no response within 150 s") }] },
    want: ["cache.audit", "notChecked", /150 s/],
  },
  { name: "an audit without differences", facts: audited([]), want: ["cache.audit", "ok", /^3 compared, none differs$/] },
  { name: "an audit of lanes that lag", facts: audited([], 2), want: ["cache.audit", "ok", /not detected in 2 lanes/] },
  {
    name: "an audit with differences",
    facts: audited([
      { kind: "missing", resource: "pods", key: "shop/web-1" },
      { kind: "older", resource: "pods", key: "shop/web-2" },
    ]),
    want: ["cache.audit", "failure", /^2 of 3: missing shop\/web-1, older shop\/web-2$/, /another writer of this Redis/],
  },
  {
    name: "an unavailable API server",
    facts: api({ version: unseen("connect ECONNREFUSED") }),
    want: ["api.answers", "failure", /ECONNREFUSED/, /address/],
  },
  { name: "an unsupported old API server", facts: apiSays("v1.34.9"), want: ["api.version", "failure", /v1\.34\.9/, /1\.35 to 1\.37/] },
  {
    name: "an unsupported old API server in shadow mode",
    facts: { ...apiSays("v1.34.9"), mode: "shadow" },
    want: ["api.version", "warning", /v1\.34\.9/, /1\.35 to 1\.37/],
  },
  {
    name: "an unsupported old API server that a user permits",
    facts: { ...apiSays("v1.34.9"), kubernetes: "any" },
    want: ["api.version", "warning", /v1\.34\.9/, /rollout first/],
  },
  {
    name: "an API server without a valid version",
    facts: apiSays("unknown"),
    want: ["api.version", "failure", /unknown/, /1\.35 to 1\.37/],
  },
  { name: "the oldest supported API server", facts: apiSays("v1.35.0"), want: ["api.version", "ok", /v1\.35\.0/] },
  {
    name: "an API server newer than the supported ones",
    facts: apiSays("v1.38.0-beta.0"),
    want: ["api.version", "failure", /v1\.38.*pod template/, /DELTALOOP_KUBERNETES/],
  },
  {
    name: "another cluster",
    facts: api({ identity: seen({ cid: "ffffffffffff", uid: "u" }) }),
    want: ["api.cluster", "failure", /ffffffffffff/, /DELTALOOP_CLUSTER/],
  },
  {
    name: "a cluster whose id cannot be read",
    facts: api({ identity: unseen("403 Forbidden") }),
    want: ["api.cluster", "notChecked", /403/],
  },
  { name: "a listed cluster, whose id is from its kubeconfig", facts: listed(), want: ["api.cluster", "ok", /3a4e3a4e.*UID/] },
  {
    name: "a listed cluster at whose address is another one",
    facts: listed({ api: api({ identity: seen({ cid: "ffffffffffff", uid: "another-uid" }) }).api }),
    want: ["api.cluster", "failure", /another-uid.*kube-system-uid/, /log of the watcher/],
  },
  {
    name: "a listed cluster without an epoch",
    facts: listed({ cache: cache({ epoch: seen(undefined) }).cache }),
    want: ["api.cluster", "notChecked", /no epoch/],
  },
  {
    name: "a listed cluster whose epoch cannot be read",
    facts: listed({ cache: cache({ epoch: unseen("Redis does not answer") }).cache }),
    want: ["api.cluster", "notChecked", /Redis does not answer/],
  },

  { name: "a role that lacks a permission", facts: role(OWN, false), want: ["permissions", "failure", /lacks list pods/, /rbac\.yaml/] },
  { name: "a role with all required permissions", facts: role(OWN, true), want: ["permissions", "ok", /1 of 1/] },
  {
    name: "another identity that has all required permissions",
    facts: role("kubernetes-admin", true),
    want: ["permissions", "notChecked", /no credentials of the role.*kubernetes-admin has all 1 permissions/],
  },
  {
    name: "another identity that lacks a required right",
    facts: role("jane", false),
    want: ["permissions", "warning", /jane lacks list pods/, /own credentials/],
  },
  {
    name: "the service account of another role",
    facts: role(`${OWN}-2`, true),
    want: ["permissions", "notChecked", /no credentials of the role/],
  },

  { name: "a local clock 4 s off", facts: apiSays("v1.36.3", NOW_MS + 4_000), want: ["clock.local", "ok", /within 4\.0 s/] },
  {
    name: "a local clock 6 s behind",
    facts: apiSays("v1.36.3", NOW_MS + 6_000),
    want: ["clock.local", "warning", /6\.0 s behind/, /minReadySeconds/],
  },
  {
    name: "a local clock 6 min ahead",
    facts: apiSays("v1.36.3", NOW_MS - 360_000),
    want: ["clock.local", "failure", /6 min ahead/, /AWS/],
  },
  {
    name: "a local clock exactly 5 s behind",
    facts: apiSays("v1.36.3", NOW_MS + 5_000),
    want: ["clock.local", "warning", /5\.0 s behind/, /NTP/],
  },
  {
    name: "a local clock exactly 5 min behind",
    facts: apiSays("v1.36.3", NOW_MS + 300_000),
    want: ["clock.local", "failure", /5 min behind/, /AWS/],
  },
  {
    name: "an API server without a Date header",
    facts: api({ version: seen({ server: "https://kube", gitVersion: "v1.36.3" }) }),
    want: ["clock.local", "notChecked", /no Date/],
  },
  {
    name: "an unavailable API server, so no Date header",
    facts: api({ version: unseen() }),
    want: ["clock.redis", "notChecked", /API server does not answer/],
  },
  { name: "a Redis clock 6 min ahead", facts: redis({ timeMs: NOW_MS + 360_000 }), want: ["clock.redis", "warning", /6 min ahead/, /NTP/] },
  {
    name: "a local clock that differs from both Redis and the API server",
    facts: { ...redis({ timeMs: NOW_MS + 60_500 }), api: apiSays("v1.36.3", NOW_MS + 60_000).api },
    want: ["clock.redis", "ok", /within 1 s/],
  },

  {
    name: "an unavailable Redis",
    facts: { ...HEALTHY, server: unseen("connect ECONNREFUSED") },
    want: ["redis.answers", "failure", /ECONNREFUSED/, /DELTALOOP_REDIS_URL/],
  },
  {
    name: "an unsupported old Redis",
    facts: redis({ version: "6.0.16" }),
    want: ["redis.version", "failure", /6\.0\.16/, /use Redis 6\.2 or newer/],
  },
  { name: "the oldest supported Redis", facts: redis({ version: "6.2.0" }), want: ["redis.version", "ok", /6\.2\.0/] },
  { name: "a replica", facts: redis({ role: "slave" }), want: ["redis.role", "failure", /replica/, /primary/] },
  { name: "a Redis that is loading its data", facts: redis({ loading: true }), want: ["redis.role", "failure", /loading/, /Wait/] },
  {
    name: "an eviction policy that evicts keys",
    facts: redis({ policy: "allkeys-lru" }),
    want: ["redis.policy", "failure", /allkeys-lru/, /noeviction/],
  },
  { name: "keys that were evicted", facts: redis({ evicted: 7 }), want: ["redis.evicted", "warning", /7 keys/, /memory/] },
  { name: "memory at 81 %", facts: redis({ usedBytes: 81, maxBytes: 100 }), want: ["redis.memory", "warning", /81 %/, /more memory/] },
  { name: "memory at 80 %", facts: redis({ usedBytes: 80, maxBytes: 100 }), want: ["redis.memory", "ok", /80 %/] },
  {
    name: "memory that is full",
    facts: redis({ usedBytes: 100, maxBytes: 100 }),
    want: ["redis.memory", "failure", /100 %/, /rejects writes/],
  },
  {
    name: "class B without a replica",
    facts: redis({}, { durability: "B" }),
    want: ["redis.replicas", "failure", /class B, 0 replicas/, /Restore the replica/],
  },
  {
    name: "class B with a replica",
    facts: redis({ replicas: 1 }, { durability: "B" }),
    want: ["redis.replicas", "ok", /class B, 1 replica$/],
  },
  {
    name: "class C with a replica",
    facts: redis({ replicas: 1 }),
    want: ["redis.replicas", "warning", /class C, 1 replica$/, /DURABILITY=B/],
  },
  {
    name: "durability class A, which replicates by itself",
    facts: redis({}, { durability: "A" }),
    want: ["redis.replicas", "ok", /class A/],
  },
  { name: "a Redis cluster", facts: redis({}, { redisCluster: true }), want: ["redis.replicas", "notChecked", /Redis Cluster/] },
  { name: "a save that failed", facts: redis({ saveFailed: true }), want: ["redis.persistence", "failure", /save to disk failed/, /disk/] },

  {
    name: "a missing delta queue",
    facts: queue("deltas", (each) => ({ ...each, seen: unseen("QueueDoesNotExist") })),
    want: ["queue.answers", "failure", /QueueDoesNotExist/, /DELTALOOP_DELTAS_URL/],
  },
  {
    name: "a missing doorbell queue",
    facts: queue("replicaset", (each) => ({ ...each, seen: unseen("QueueDoesNotExist") })),
    want: ["queue.answers", "failure", /QueueDoesNotExist/, /DELTALOOP_DOORBELLS_REPLICASET_URL/],
  },
  {
    name: "a queue whose attributes may not be read",
    facts: queue("deltas", (each) => ({ ...each, seen: unseen("AccessDenied: no") })),
    want: ["queue.answers", "notChecked", /access denied/],
  },
  {
    name: "content-based deduplication, which drops messages",
    facts: attribute("deltas", "ContentBasedDeduplication", "true"),
    want: ["queue.settings", "failure", /ContentBasedDeduplication true instead of false/, /dropped as duplicates/],
  },
  {
    name: "a visibility timeout that differs from the configured one",
    facts: attribute("replicaset", "VisibilityTimeout", "30"),
    want: ["queue.settings", "warning", /VisibilityTimeout 30 instead of 360/, /queues\.yml/],
  },
  { name: "a queue without dead letters", facts: withoutRedrive, want: ["queue.redrive", "failure", /none/, /queues\.yml/] },
  {
    name: "a queue with a low maxReceiveCount",
    facts: queueSays("deltas", { redrive: { deadLetterArn: "a", maxReceiveCount: 3 } }),
    want: ["queue.redrive", "warning", /after 3 receives instead of 1000/, /queues\.yml/],
  },
  {
    name: "a backlog of deltas",
    facts: queueSays("deltas", { waiting: 1_000 }),
    want: ["queue.depth", "warning", /1000 waiting/, /apply-deltas runs/],
  },
  {
    name: "a backlog of doorbells",
    facts: queueSays("replicaset", { waiting: 1_000 }),
    want: ["queue.depth", "warning", /1000 waiting/, /sync-replicaset runs/],
  },
  { name: "a backlog just below the limit", facts: queueSays("deltas", { waiting: 999 }), want: ["queue.depth", "ok", /999 waiting/] },
  {
    name: "a dead-letter queue that is not FIFO",
    facts: queue("deltas", (each) => ({ ...each, deadLetters: seen({ waiting: 0, inFlight: 0, delayed: 0, attributes: {} }) })),
    want: ["queue.deadLetters", "warning", /FifoQueue unset instead of true/, /queues\.yml/],
  },
  {
    name: "deltas in the dead-letter queue",
    facts: dead("deltas"),
    want: ["queue.deadLetters", "failure", /2 messages/, /dead-deltas runs/],
  },
  {
    name: "doorbells in the dead-letter queue",
    facts: dead("replicaset"),
    want: ["queue.deadLetters", "failure", /2 messages/, /sync-replicaset/],
  },
  {
    name: "dead letters that may not be counted",
    facts: queue("deltas", (each) => ({ ...each, deadLetters: unseen("AccessDenied") })),
    want: ["queue.deadLetters", "notChecked", /AccessDenied/],
  },

  { name: "shadow mode", facts: { ...HEALTHY, mode: "shadow" }, want: ["watcher.mode", "warning", /sends none/, /DELTALOOP_MODE=act/] },
  { name: "shadow mode, which takes no Lease", facts: { ...HEALTHY, mode: "shadow" }, want: ["watcher.lease", "notChecked", /no Lease/] },
  { name: "shadow mode, which has no guard", facts: { ...HEALTHY, mode: "shadow" }, want: ["watcher.guard", "notChecked", /shadow/] },
  { name: "a guard that has seen no other controller", facts: HEALTHY, want: ["watcher.guard", "ok", /no other controller/] },
  {
    name: "a guard without its canary",
    facts: api({ canary: { name: "deltaloop/deltaloop-canary", seen: seen(false) } }),
    want: [
      "watcher.guard",
      "warning",
      /^there is no ReplicaSet deltaloop\/deltaloop-canary: /,
      /kubectl apply -f infra\/manifests\/canary\.yaml/,
    ],
  },
  { name: "no guard", facts: { ...HEALTHY, guard: "off" }, want: ["watcher.guard", "warning", /not detected/, /DELTALOOP_GUARD=on/] },
  {
    name: "another controller",
    facts: stopped({ kind: "seen", write: { resource: "deployments", key: "shop/web", manager: "k3s", atMs: NOW_MS }, sinceMs: NOW_MS }),
    want: ["watcher.guard", "failure", /k3s wrote the status of deployments shop\/web/, /--controllers.*deltaloop resume/],
  },
  {
    name: "another controller, and no guard",
    facts: { ...stopped({ kind: "unbelieved" }), guard: "off" },
    want: ["watcher.guard", "failure", /without a valid signature/, /other writer of Redis.*deltaloop resume/],
  },
  {
    name: "another controller in two namespaces",
    facts: cache({
      guard: seen({
        acceptedMs: 0,
        namespaces: new Map(["shop", "bank"].map((name) => [name, { stop: { kind: "unbelieved" as const }, acceptedMs: 0 }])),
      }),
    }),
    want: ["watcher.guard", "failure", /^shop and 1 more namespaces: stopped/, /resume --namespace NAME/],
  },
  { name: "a guard that cannot be read", facts: cache({ guard: unseen("no answer") }), want: ["watcher.guard", "notChecked", /no answer/] },
  {
    name: "no Lease",
    facts: api({ lease: { name: "a/b", seen: seen(undefined) } }),
    want: ["watcher.lease", "failure", /no Lease a\/b/, /lease-namespace/],
  },
  {
    name: "a released Lease",
    facts: lease({ holder: "" }),
    want: ["watcher.lease", "failure", /a\/b has no holder/, /deltaloop watch/],
  },
  { name: "a Lease of 15 s", facts: lease({ renewedAtMs: NOW_MS + 500 - 15_000 }), want: ["watcher.lease", "ok", /15 s ago/] },
  {
    name: "an expired Lease",
    facts: lease({ renewedAtMs: NOW_MS - 16_000 }),
    want: ["watcher.lease", "failure", /17 s ago/, /has stopped/],
  },
  {
    name: "a Lease renewed by the API server's clock while the local clock is behind",
    facts: {
      ...HEALTHY,
      api: { ...lease({ renewedAtMs: NOW_MS + 60_000 }).api, version: apiSays("v1.36.3", NOW_MS + 60_000).api.version },
    },
    want: ["watcher.lease", "ok", /0\.5 s ago/],
  },
  {
    name: "a fence newer than the Lease",
    facts: fences("121"),
    want: ["watcher.fence", "failure", /121, the Lease is at 120/, /Delete the Redis key ep/],
  },
  {
    name: "a Lease that does not list the epoch's term",
    facts: lease({ terms: [{ term: "t0", count: 9 }] }),
    want: ["watcher.lineage", "failure", /two clusters share this cache/, /resume --lineage/],
  },
  {
    name: "four recent epochs",
    facts: cache({ lineage: seen({ recentEpochs: 4 }) }),
    want: ["watcher.lineage", "failure", /4 new epochs/, /resume --lineage/],
  },
  { name: "a fence as new as the Lease", facts: fences("120"), want: ["watcher.fence", "ok", /120/] },
  { name: "two different fences", facts: fences("99", "100"), want: ["watcher.fence", "warning", /2 fences/, /few seconds/] },

  { name: "no epoch", facts: cache({ epoch: seen(undefined) }), want: ["cache.epoch", "failure", /no cache/, /deltaloop watch/] },
  { name: "no epoch, so no lag is measured", facts: cache({ epoch: seen(undefined) }), want: ["cache.lag", "notChecked", /no epoch/] },
  {
    name: "an epoch of a rebuilt cluster",
    facts: api({ identity: seen({ cid: HEALTHY.cluster, uid: "other" }) }),
    want: ["cache.epoch", "failure", /another cluster/, /new epoch/],
  },
  {
    name: "a gate closed because the cache is suspect",
    facts: shut("pods: SUSPECT (a dead letter)"),
    want: ["cache.gate", "failure", /closed: pods: SUSPECT/, /relists/],
  },
  {
    name: "a gate closed because heartbeats are missing",
    facts: shut("pods: lane 3 has been silent for more than 60000 ms"),
    want: ["cache.gate", "failure", /silent/, /heartbeats/],
  },
  {
    name: "a gate closed because of a gap in sequence numbers",
    facts: shut("pods: lane 3 has had a hole in its sequence for more than 2000 ms"),
    want: ["cache.gate", "failure", /hole/, /raises the fence/],
  },
  { name: "a gate that opens after the first list", facts: shut("pods: INIT"), want: ["cache.gate", "failure", /INIT/, /first list/] },
  {
    name: "a gate of another build",
    facts: shut("the epoch has digestPrefix a, this build b"),
    want: ["cache.gate", "failure", /digestPrefix/, /DELTALOOP_DIGEST_KEY/],
  },
  {
    name: "a gate closed because of a failover",
    facts: shut("another primary serves the cache: recent writes of the former one may be missing"),
    want: ["cache.gate", "failure", /primary/, /relists/],
  },
  { name: "a gate without an epoch", facts: shut("there is no epoch"), want: ["cache.gate", "failure", /no epoch/, /deltaloop watch/] },
  {
    name: "a lane silent for 24 s",
    facts: lanes({ appliedAtMs: REDIS_MS - 24_000 }),
    want: ["cache.lag", "ok", /24 s ago, sent 140, applied 139/],
  },
  {
    name: "a lane silent for 25 s",
    facts: lanes({ appliedAtMs: REDIS_MS - 25_000 }),
    want: ["cache.lag", "warning", /^SYNCED, last message 25 s/, /apply-deltas/],
  },
  {
    name: "a lane silent for a minute",
    facts: lanes({ appliedAtMs: REDIS_MS - 60_000 }),
    want: ["cache.lag", "failure", /60 s/, /apply-deltas/],
  },
  {
    name: "a lane to which nothing was applied yet",
    facts: untouched,
    want: ["cache.lag", "failure", /^INIT, .*1 of 2 lanes/, /apply-deltas/],
  },
  { name: "a lane with some unapplied versions", facts: lanes({ watermark: "98" }), want: ["cache.lag", "ok", /sent 140, applied 98/] },
  {
    name: "a frozen lane",
    facts: lanes({ frozen: true }),
    want: ["cache.lanes", "warning", /^lane 0 frozen$/, /lists the missing objects again/],
  },
  {
    name: "a gap in a lane",
    facts: lanes({ holeSinceMs: REDIS_MS - 3_000 }),
    want: ["cache.lanes", "warning", /lane 0 with a hole for 3\.0 s/, /lists/],
  },
  {
    name: "a frozen lane with a gap",
    facts: lanes({ frozen: true, holeSinceMs: REDIS_MS - 3_000 }),
    want: ["cache.lanes", "warning", /^lane 0 frozen, with a hole for 3\.0 s$/, /lists/],
  },
  {
    name: "an item quarantined today",
    facts: quarantined(REDIS_MS - DAY_MS + 1_000),
    want: ["cache.quarantine", "failure", /1: shop\/web-1 \(delta queue: no uid\)/, /kubectl/],
  },
  { name: "an item quarantined yesterday", facts: quarantined(REDIS_MS - DAY_MS), want: ["cache.quarantine", "ok", /1 before/] },
  {
    name: "a message rejected as forged today",
    facts: forged(REDIS_MS),
    want: ["cache.forged", "warning", /m-1 \(deltas: no MAC\)/, /DELTALOOP_MAC_KEY/],
  },

  { name: "a key due for 9 s", facts: queued({ dueMs: 9_000 }), want: ["work.due", "ok", /1 due, shop\/web-0 for 9\.0 s, 0 running/] },
  { name: "a key due for 10 s", facts: queued({ dueMs: 10_000 }), want: ["work.due", "warning", /10 s/, /sync-replicaset runs/] },
  {
    name: "a key due for 45 s",
    facts: queued({ dueMs: 1 }, { dueMs: 45_000 }),
    want: ["work.due", "failure", /2 due, shop\/web-1 for 45 s/, /sync-replicaset runs/],
  },
  { name: "a key that is being synced", facts: queued({ dueMs: 50_000, leaseMs: 1 }), want: ["work.due", "ok", /0 due, 1 running/] },
  {
    name: "a key whose lease ends at this moment",
    facts: queued({ leaseMs: 0 }),
    want: ["work.due", "ok", /^1 due, shop\/web-0 for 0\.0 s, 0 running$/],
  },
  {
    name: "a work queue that cannot be read",
    facts: controller({ queued: unseen("an odd answer") }),
    want: ["work.due", "notChecked", /^an odd answer$/],
  },
  {
    name: "a key of a dead run",
    facts: queued({ leaseMs: -46_000 }),
    want: ["work.due", "failure", /1 due, shop\/web-0 for 46 s, 0 running/, /sync-replicaset runs/],
  },
  { name: "a key that is due later", facts: queued({ dueMs: -50_000 }), want: ["work.due", "ok", /0 due/] },
  {
    name: "a key behind a closed gate",
    facts: controller({
      gate: seen({ open: false, reason: "pods: INIT" }),
      queued: seen([{ key: "shop/web", readyAtMs: REDIS_MS - 90_000, failures: 0 }]),
    }),
    want: ["work.due", "failure", /90 s/, /Open the gate first/],
  },
  {
    name: "keys that keep failing",
    facts: queued({ failures: 4 }, { failures: 5 }, { failures: 9 }),
    want: ["work.failing", "warning", /^shop\/web-2 9 times, shop\/web-1 5 times$/, /log of sync-replicaset/],
  },
  {
    name: "a parked key",
    facts: controller({ parked: seen([{ key: "shop/web", sinceMs: REDIS_MS - 120_000, failures: 16 }]) }),
    want: ["work.parked", "failure", /shop\/web after 16 failures, 2 min ago/, /annotate/],
  },
  {
    name: "a pending call before its deadline",
    facts: intent({ deadlineMs: REDIS_MS + 20_000 }),
    want: ["work.intents", "ok", /calls in flight: 1/],
  },
  {
    name: "a call that is still pending 61 s after its deadline",
    facts: intent({ deadlineMs: REDIS_MS - 61_000 }),
    want: ["work.intents", "failure", /replicaset shop\/web: create web-1, overdue by 61 s/, /sync function/],
  },
  {
    name: "a call that is still pending 60 s after its deadline",
    facts: intent({ deadlineMs: REDIS_MS - 60_000 }),
    want: ["work.intents", "ok", /: 1$/],
  },
  {
    name: "a pending call with the longest possible deadline",
    facts: intent({ deadlineMs: REDIS_MS + 360_000 }),
    want: ["work.intents", "ok", /: 1$/],
  },
  {
    name: "a pending call with a deadline beyond the longest possible one",
    facts: intent({ deadlineMs: REDIS_MS + 361_000 }),
    want: ["work.intents", "failure", /unbounded/, /Delete the owner's Redis key/],
  },
  {
    name: "a planned name, which blocks nothing",
    facts: intent({ state: "planned", deadlineMs: 0 }),
    want: ["work.intents", "ok", /: 0$/],
  },
];

it.each(ROWS)("reports the finding for $name", ({ facts, want: [check, state, said, remedy] }) => {
  const found = judge(facts).filter((finding) => finding.check === check);
  const [worst] = (["failure", "warning", "notChecked", "ok"] as const).flatMap((one) => found.filter((finding) => finding.state === one));
  expect(worst).toMatchObject({ state, seen: expect.stringMatching(said) });
  if (remedy === undefined) expect(worst).not.toHaveProperty("remedy");
  else expect(worst?.remedy).toMatch(remedy);
});

it("reports every check of a healthy system", () => {
  const findings = judge(HEALTHY);
  expect(findings.filter(({ state }) => state !== "ok")).toEqual([]);
  expect(findings.find(({ check }) => check === "queue.depth")?.seen).toBe("0 waiting, 0 in flight");
  expect([...new Set(findings.map(({ check }) => check))]).toEqual(expect.arrayContaining(Object.keys(CHECKS)));
});

it("each check has a test row with a finding, and each remedy is one sentence", () => {
  const unwell = new Set(
    ROWS.filter(({ want: [, state] }) => state === "failure" || state === "warning").map(({ want: [check] }) => check),
  );
  expect(Object.keys(CHECKS).filter((check) => !unwell.has(check as Check))).toEqual([]); // keys of CHECKS
  for (const { facts } of ROWS)
    for (const { remedy } of judge(facts)) if (remedy !== undefined) expect(remedy).toMatch(/^[A-Z](?!.*\. [A-Z]).*[^.]\.$/);
});

it("omits the audit check if no audit was requested", () => {
  const { audits: _none, ...unasked } = HEALTHY;
  expect(judge(unasked).filter(({ check }) => check === "cache.audit")).toEqual([]);
});

it("an unavailable component fails only its own checks and checks that depend on it", () => {
  const gone = unseen("Redis does not answer");
  const withoutRedis: Facts = {
    ...HEALTHY,
    server: gone,
    cache: {
      epoch: gone,
      lineage: gone,
      streams: gone,
      quarantine: gone,
      forgeries: gone,
      guard: gone,
      intents: gone,
      controllers: [{ controller: "replicaset", gate: gone, queued: gone, parked: gone }],
    },
    audits: [{ resource: "pods", seen: gone }],
  };
  const states = (facts: Facts, prefix: RegExp): readonly State[] => [
    ...new Set(
      judge(facts)
        .filter(({ check }) => prefix.test(check))
        .map(({ state }) => state),
    ),
  ];
  expect(states(withoutRedis, /^(api|permissions|queue|clock\.local|watcher\.(mode|lease))/)).toEqual(["ok"]);
  expect(states(withoutRedis, /^(cache|work|clock\.redis|redis\.(?!answers)|watcher\.fence)/)).toEqual(["notChecked"]);
  expect(judge(withoutRedis).filter(({ check, seen: why }) => check.startsWith("cache") && why !== gone.why)).toEqual([]);
  expect(judge(withoutRedis).filter(({ state }) => state === "failure")).toMatchObject([{ check: "redis.answers" }]);
});

function never(): never {
  throw new Error("HEALTHY lacks this fact");
}
