/** The facts that `doctor` collects from a healthy system; each test changes one of them. */
import type { Facts, Seen } from "../../../../cli/doctor/facts.ts";
import { CACHED_RESOURCES, CONTROLLERS } from "../../../../shared/kube/objects/resources.ts";
import { LANES } from "../../../../shared/store/lane.ts";
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_QUEUE } from "../../../../shared/local/queues.ts";
import { ROLES } from "../../../../shared/controllers/registry/rights.ts";

/** A whole second, because the API server's Date header has no fractions; its responses are half a second later. */
export const NOW_MS = 1_772_359_200_000;
const CLUSTER = "0123456789ab";

export function seen<T>(value: T): Seen<T> {
  return { kind: "seen", value, tookMs: 3, atMs: NOW_MS + 500 };
}

export function unseen(why = "no response within 6 s"): { readonly kind: "unseen"; readonly why: string } {
  return { kind: "unseen", why };
}

export const HEALTHY: Facts = {
  mode: "act",
  guard: "on",
  kubernetes: "supported",
  cluster: CLUSTER,
  redisCluster: false,
  durability: "C",
  api: {
    version: seen({ server: "https://kube:6443", gitVersion: "v1.37.2", dateMs: NOW_MS }),
    identity: seen({ cid: CLUSTER, uid: "kube-system-uid" }),
    lease: {
      name: "deltaloop/deltaloop-watcher-prod",
      seen: seen({
        resourceVersion: "120",
        holder: "host-1",
        renewedAtMs: NOW_MS - 1_000,
        durationSeconds: 15,
        terms: [{ term: "t1", count: 5 }],
      }),
    },
    canary: { name: "deltaloop/deltaloop-canary", seen: seen(true) },
  },
  roles: ROLES.map(({ name }) => ({
    role: name,
    seen: seen({ user: `system:serviceaccount:deltaloop:${name}`, rights: [{ role: name, what: "list pods", allowed: true }] }),
  })),
  server: seen({
    version: "7.2.4",
    role: "master",
    replicas: 0,
    policy: "noeviction",
    evicted: 0,
    usedBytes: 2 ** 20,
    maxBytes: 0,
    appendOnly: false,
    saveFailed: false,
    loading: false,
    timeMs: NOW_MS + 500,
  }),
  queues: ["deltas", ...CONTROLLERS].map((name) => {
    const { attributes, maxReceiveCount } = name === "deltas" ? DELTA_QUEUE : DOORBELL_QUEUE;
    const empty = { waiting: 0, inFlight: 0, delayed: 0 };
    return {
      name,
      seen: seen({ ...empty, attributes, redrive: { deadLetterArn: `arn:aws:sqs:eu-west-1:1:${name}-dead`, maxReceiveCount } }),
      deadLetters: seen({ ...empty, attributes: name === "deltas" ? DEAD_DELTA_QUEUE : {} }),
    };
  }),
  cache: {
    lineage: seen({
      current: {
        record: { epoch: "e1", clusterUid: "u", projection: 1, digestPrefix: "d", hashLayout: "h", fence: "1" },
        token: { term: "t1", count: 4 },
      },
      recentEpochs: 1,
    }),
    epoch: seen({
      epoch: "e1",
      clusterUid: "kube-system-uid",
      projection: 2,
      digestPrefix: "k.1",
      hashLayout: "v1.36",
      fence: "100",
    }),
    streams: seen(
      CACHED_RESOURCES.map((resource) => ({
        resource,
        state: "SYNCED",
        fence: "100",
        sentRV: "140",
        lanes: Array.from({ length: LANES[resource] }, () => ({ watermark: "139", frozen: false, appliedAtMs: NOW_MS - 4_000 })),
      })),
    ),
    quarantine: seen([]),
    forgeries: seen([]),
    guard: seen({ acceptedMs: 0, namespaces: new Map() }),
    intents: seen({ owners: 3, found: [] }),
    controllers: CONTROLLERS.map((controller) => ({ controller, gate: seen({ open: true }), queued: seen([]), parked: seen([]) })),
  },
  audits: CACHED_RESOURCES.map((resource) => ({ resource, seen: seen({ resource, differences: [], compared: 4, unsettledLanes: 0 }) })),
};
