/**
 * Deployments and ReplicaSets on a real control plane, with our watcher and functions in `deltaloop dev
 * --act`, compared with upstream's own controllers for the same commands.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { least, momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import type { History } from "../support/history.ts";
import { isSettled, takeSnapshot, withoutPodNames } from "../support/snapshot.ts";
import type { Snapshot } from "../support/snapshot.ts";

const NAMESPACE = "shop";
/** Interval in ms between two equal snapshots after which the namespace counts as settled. */
const STILL_MS = 500;

function deployment(name: string, replicas: number, more: object = {}): object {
  const labels = { app: name };
  const container = { name: "main", image: "shop:1", env: [{ name: "LEVEL", value: "info" }], ports: [{ containerPort: 8080 }] };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: NAMESPACE, labels, annotations: { team: "blue" } },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [container] } }, ...more },
  };
}

function replicaSet(name: string, replicas: number): object {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name, namespace: NAMESPACE },
    spec: { replicas, selector: { matchLabels: labels }, template },
  };
}

/**
 * A pod with a high deletion cost, so that timing does not decide which pod is deleted. Its name ends in five characters like generated
 * names, which the comparison replaces.
 */
function bare(name: string, app = "keeper"): object {
  const annotations = { "controller.kubernetes.io/pod-deletion-cost": "100" };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE, labels: { app }, annotations },
    spec: { containers: [{ name: "main", image: "shop:0" }] },
  };
}

/**
 * The roles that make requests in this test: apply-deltas reads only objects too big for a message, and there is no ReplicationController
 * here.
 */
const ROLES_AT_WORK = ["watcher", "sync-deployment", "sync-replicaset"];

const WRITE_VERBS = new Set(["create", "update", "patch", "delete"]);

interface Step {
  readonly name: string;
  readonly run: (cluster: Cluster) => Promise<unknown>;
  /** The step includes a rollout: intermediate sizes depend on timing, so numbers in its Events are not compared. */
  readonly rolls?: true;
}

const k = (cluster: Cluster, ...args: readonly string[]): Promise<string> => cluster.kubectl(...args, "-n", NAMESPACE);

async function setImage(cluster: Cluster, name: string, image: string): Promise<void> {
  await k(cluster, "set", "image", `deployment/${name}`, `main=${image}`);
}

async function scale(cluster: Cluster, name: string, replicas: number): Promise<void> {
  await k(cluster, "scale", `deployment/${name}`, `--replicas=${replicas}`);
  await cluster.rolledOut(NAMESPACE, name);
}

async function roll(cluster: Cluster, name: string, image: string): Promise<void> {
  await setImage(cluster, name, image);
  await cluster.rolledOut(NAMESPACE, name);
}

async function create(cluster: Cluster, object: object, name: string): Promise<void> {
  await cluster.apply(object);
  await cluster.rolledOut(NAMESPACE, name);
}

const recreate = { strategy: { type: "Recreate" } };

/** Each step leaves a settled namespace, whose whole state is compared. */
const STEPS: readonly Step[] = [
  { name: "creates a Deployment's ReplicaSet and pods", run: (c) => create(c, deployment("web", 3), "web") },
  { name: "scales 3 → 10", run: (c) => scale(c, "web", 10) },
  { name: "scales 10 → 2", run: (c) => scale(c, "web", 2) },
  { name: "rolls to a second image", rolls: true, run: (c) => roll(c, "web", "shop:2") },
  { name: "rolls to a third image", rolls: true, run: (c) => roll(c, "web", "shop:3") },
  {
    name: "rolls back to the second image by kubectl rollout undo",
    rolls: true,
    run: async (c) => {
      await k(c, "rollout", "undo", "deployment/web");
      await c.rolledOut(NAMESPACE, "web");
    },
  },
  {
    name: "shows the change cause in kubectl rollout history",
    run: async (c) => {
      await k(c, "annotate", "deployment/web", "kubernetes.io/change-cause=back to the second");
      await c.rolledOut(NAMESPACE, "web");
      expect(await k(c, "rollout", "history", "deployment/web")).toContain("back to the second");
    },
  },
  {
    name: "[deployment T106] rolls back to the revision of an annotation",
    rolls: true,
    run: async (c) => {
      await k(c, "annotate", "deployment/web", "deprecated.deployment.rollback.to=3");
      await c.rolledOut(NAMESPACE, "web");
      expect(await k(c, "get", "deployment/web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")).toBe("shop:3");
    },
  },
  {
    name: "ends a request for a missing revision",
    run: (c) => k(c, "annotate", "deployment/web", "deprecated.deployment.rollback.to=9"),
  },
  {
    name: "rolls when kubectl sets an environment variable",
    rolls: true,
    run: async (c) => {
      await k(c, "set", "env", "deployment/web", "LEVEL=debug");
      await c.rolledOut(NAMESPACE, "web");
    },
  },
  { name: "starts with the Recreate strategy", run: (c) => create(c, deployment("once", 3, recreate), "once") },
  { name: "recreates", run: (c) => roll(c, "once", "shop:2") },
  { name: "[deployment T117] creates no ReplicaSet while created paused", run: (c) => c.apply(deployment("held", 1, { paused: true })) },
  {
    name: "[deployment T117] starts with revision 1 when resumed",
    run: async (c) => {
      await k(c, "rollout", "resume", "deployment/held");
      await c.rolledOut(NAMESPACE, "held");
    },
  },
  {
    name: "[deployment T118] scales 1 → 10 while paused",
    run: async (c) => {
      await k(c, "rollout", "pause", "deployment/held");
      await k(c, "scale", "deployment/held", "--replicas=10");
    },
  },
  { name: "[deployment T117] creates no new ReplicaSet while paused", run: (c) => setImage(c, "held", "shop:2") },
  {
    name: "rolls when resumed",
    rolls: true,
    run: async (c) => {
      await k(c, "rollout", "resume", "deployment/held");
      await c.rolledOut(NAMESPACE, "held");
    },
  },
  {
    name: "[deployment T108] adopts the ReplicaSet of an orphaning deletion",
    run: async (c) => {
      await create(c, deployment("left", 2), "left");
      await k(c, "delete", "deployment/left", "--cascade=orphan", "--timeout=30s");
      await create(c, deployment("left", 2), "left");
    },
  },
  {
    name: "[replicaset 113] adopts a bare pod that matches",
    run: async (c) => (await c.apply(bare("bare")), await c.apply(replicaSet("keeper", 2))),
  },
  {
    name: "[replicaset 113] [replicaset 103] releases a pod that no longer matches and replaces it",
    run: (c) => k(c, "label", "pod", "bare", "app=astray", "--overwrite"),
  },
  {
    name: "[replicaset 103] adopts it again when it matches, and deletes the surplus one",
    run: (c) => k(c, "label", "pod", "bare", "app=keeper", "--overwrite"),
  },
  {
    name: "[replicaset 107] deletes adopted pods beyond its size",
    run: async (c) => {
      await c.apply(...["many-first", "many-other", "many-third"].map((name) => bare(name, "many")));
      await c.apply(replicaSet("many", 2));
    },
  },
  {
    name: "[deployment T107] deletes in cascade",
    run: async (c) => {
      await k(c, "delete", "deployment/web", "--timeout=60s");
      await k(c, "delete", "deployment/held", "--timeout=60s", "--cascade=background");
      await k(c, "delete", "deployment/once", "--timeout=60s", "--cascade=foreground");
      await k(c, "delete", "replicaset/keeper", "--timeout=60s", "--cascade=foreground");
    },
  },
];

/** Runs a step, waits until it has settled, and takes a snapshot, with the Events that are not in `told` yet. */
async function play(cluster: Cluster, step: Step, told: Set<string>): Promise<Snapshot> {
  await step.run(cluster);
  let last = "";
  await eventually(`${step.name}: nothing moves any more`, async () => {
    if (!(await isSettled(cluster, NAMESPACE))) return false;
    const now = JSON.stringify(await takeSnapshot(cluster, NAMESPACE));
    const isSame = now === last;
    last = now;
    await new Promise((resolve) => setTimeout(resolve, STILL_MS));
    return isSame;
  });
  const snapshot = await takeSnapshot(cluster, NAMESPACE);
  const events = snapshot.events.filter((event) => !told.has(event));
  for (const event of events) told.add(event);
  return { ...snapshot, events: step.rolls === true ? withoutNumbers(events) : events };
}

function withoutNumbers(events: readonly string[]): readonly string[] {
  return [...new Set(events.map((event) => event.replaceAll(/\b(from|to) \d+/g, "$1 N").replace(/ \(x\d+\)$/, "")))].toSorted();
}

/**
 * Omits Events of the objects and reasons in `folded`: after ten Events of one object and reason, a recorder aggregates further ones into
 * one Event with the newest text, and which Event that is, is random.
 */
function withoutFolded({ events, ...rest }: Snapshot, folded: ReadonlySet<string>): Snapshot {
  return { ...rest, events: events.filter((event) => !folded.has(subjectOf(event))) };
}

function foldedIn(events: readonly string[]): readonly string[] {
  return events.filter((event) => event.includes("(combined from similar events)")).map(subjectOf);
}

interface EventShape {
  readonly metadata: object;
  readonly message: string;
  readonly count: number;
  readonly firstTimestamp: string;
  readonly lastTimestamp: string;
  readonly involvedObject: { readonly uid: string; readonly resourceVersion: string };
}

/** Whole Events without values that differ between runs, and the number of rejected pod creates. */
interface Refused {
  readonly events: readonly object[];
  /** The count of the Event that aggregates later ones. */
  readonly folded: number;
  readonly refusals: number;
}

/** Creates a quota that admits one of three pods, and waits until more than ten rejections were reported. */
async function refuse(cluster: Cluster, namespace: string): Promise<Refused> {
  const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "room", namespace }, spec: { hard: { pods: "1" } } };
  await cluster.kubectl("create", "namespace", namespace);
  await cluster.apply(quota);
  const path = `/api/v1/namespaces/${namespace}`;
  await eventually("the quota is counted", async () => {
    const found = await cluster.get<{ readonly status?: { readonly used?: object } }>(`${path}/resourcequotas/room`);
    return found?.status?.used;
  });
  await cluster.apply(inNamespace(namespace, deployment("web", 3)));
  return await eventually("twelve refusals are told", async () => {
    const events = await cluster.list<EventShape>(`${path}/events?fieldSelector=reason=FailedCreate`);
    const refusals = (await cluster.audit()).filter(
      ({ verb, objectRef, responseStatus }) =>
        verb === "create" && objectRef?.resource === "pods" && objectRef.namespace === namespace && responseStatus?.code === 403,
    ).length;
    const told = events.reduce((sum, { count }) => sum + count, 0);
    if (told < 12 || told !== refusals) return undefined;
    const folded = events.find(({ message }) => message.startsWith("(combined from similar events): "));
    return { events: events.map((event) => faceless(event, event === folded)).toSorted(byText), folded: folded?.count ?? 0, refusals };
  });
}

function faceless({ metadata, message, count, ...rest }: EventShape, isFolded: boolean): object {
  const { firstTimestamp, lastTimestamp, involvedObject, ...others } = rest;
  const { uid: _uid, resourceVersion: _rv, ...about } = involvedObject;
  expect(lastTimestamp >= firstTimestamp).toBe(true);
  return {
    ...others,
    fields: Object.keys(metadata).toSorted(),
    about,
    message: withoutPodNames(message),
    count: isFolded ? "folded" : count,
  };
}

function byText(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}

/** Returns component, type, reason and object of an Event: `deployment-controller: Normal ScalingReplicaSet apps/v1 Deployment/web`. */
function subjectOf(event: string): string {
  return event.split(": ").slice(0, 2).join(": ");
}

await whereRealPartsAre("rollouts on a real control plane", () => {
  describe("the same results as upstream", () => {
    const upstream: Snapshot[] = [];
    let refusedByUpstream: Refused;
    const here: Snapshot[] = [];
    const told = new Set<string>();
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      const theirs = await startCluster({ controllers: "all" });
      try {
        await theirs.kubectl("create", "namespace", NAMESPACE);
        const from = performance.now();
        const told = new Set<string>();
        for (const step of STEPS) upstream.push(await play(theirs, step, told));
        refusedByUpstream = await refuse(theirs, "scarce");
        measured(`upstream: ${STEPS.length} steps in ${seconds(performance.now() - from)}`);
      } finally {
        await theirs.stop();
      }
      cluster = await startCluster();
      dev = await startDev(cluster);
      await cluster.kubectl("create", "namespace", NAMESPACE);
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    for (const [index, step] of STEPS.entries()) {
      it(step.name, async () => {
        const from = performance.now();
        const ours = await play(cluster, step, told);
        measured(`${step.name}: ${seconds(performance.now() - from)}`);
        here.push(ours);
        const folded = new Set([...upstream.slice(0, index + 1), ...here].flatMap(({ events }) => foldedIn(events)));
        expect(withoutFolded(ours, folded)).toEqual(withoutFolded(upstream[index] ?? ours, folded));
      });
    }

    it("[informer T82] records repeated quota rejections in the same aggregated Events as upstream", async () => {
      const { events, folded, refusals } = await refuse(cluster, "scarce");
      measured(`refusals told: upstream ${refusedByUpstream.refusals}, ours ${refusals}`);
      expect(events).toEqual(refusedByUpstream.events);
      expect([refusedByUpstream, { folded, refusals }].map((world) => world.refusals - world.folded)).toEqual([9, 9]);
    });

    it("[replicaset 99] scales 2 → 3 → 0 → 2 with spec.replicas, and follows a change of its template's annotations", async () => {
      await cluster.kubectl("create", "namespace", "sizes");
      await cluster.apply(inNamespace("sizes", replicaSet("web", 2)));
      await sizeSettles(cluster, "sizes", 2);
      for (const size of [3, 0, 2]) {
        await cluster.kubectl("scale", "rs/web", "-n", "sizes", `--replicas=${size}`);
        await sizeSettles(cluster, "sizes", size);
      }
      const annotate = { spec: { template: { metadata: { annotations: { note: "changed" } } } } };
      await cluster.kubectl("patch", "rs/web", "-n", "sizes", "--type=merge", "-p", JSON.stringify(annotate));
      const { metadata, status } = await sizeSettles(cluster, "sizes", 2);
      expect([metadata.generation, status?.observedGeneration]).toEqual([5, 5]);
    });

    it("kubectl rollout restart is a separate revision, which kubectl rollout history shows and undo reverts", async () => {
      const kubectl = (...args: readonly string[]): Promise<string> => cluster.kubectl(...args, "-n", "restarted");
      await cluster.kubectl("create", "namespace", "restarted");
      await cluster.apply(inNamespace("restarted", deployment("web", 2)));
      await cluster.rolledOut("restarted", "web");
      await kubectl("rollout", "restart", "deployment/web");
      expect(await kubectl("rollout", "status", "deployment/web", "--timeout=60s")).toContain("successfully rolled out");
      expect(await kubectl("rollout", "history", "deployment/web", "--revision=2")).toContain("kubectl.kubernetes.io/restartedAt");
      const restarted = "jsonpath={.items[*].metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}";
      await eventually("its old pods are gone", async () => (await kubectl("get", "pods", "-o", "name")).trim().split("\n").length === 2);
      expect((await kubectl("get", "pods", "-o", restarted)).split(" ")).toHaveLength(2);
      await kubectl("rollout", "undo", "deployment/web", "--to-revision=1");
      await kubectl("rollout", "status", "deployment/web", "--timeout=60s");
      expect(await kubectl("rollout", "history", "deployment/web")).toMatch(/\n2 .*\n3 /);
      expect(await kubectl("get", "rs", "-o", "name")).toMatch(/^\S+\n\S+\s*$/);
    });

    it("stays within maxSurge and maxUnavailable during a rollout of ten pods, and creates each pod once", async () => {
      const history = await watched(cluster, "bounds");
      await cluster.apply(inNamespace("bounds", deployment("web", 10)));
      await cluster.rolledOut("bounds", "web");
      const from = performance.now();
      await cluster.kubectl("set", "image", "deployment/web", "main=shop:2", "-n", "bounds");
      await cluster.rolledOut("bounds", "web");
      measured(`ten pods rolled in ${seconds(performance.now() - from)}`);
      await history.stop();
      // 25 % of 10: surge 3 (rounded up), unavailable 2 (rounded down).
      expectBounds(history, { asked: 13, ready: 8 });
      expect(Object.values(podsCreated(history.changes()))).toEqual([10, 10]);
    });

    it("[deployment T101] stays within maxSurge and maxUnavailable during a rollover with 20 replicas, and scales all old ReplicaSets to 0", async () => {
      const history = await watched(cluster, "overtaken");
      const wanted = deployment("web", 20, { minReadySeconds: 4 });
      await cluster.apply(inNamespace("overtaken", wanted));
      await cluster.rolledOut("overtaken", "web");
      for (const image of ["shop:2", "shop:3", "shop:4"]) {
        await cluster.kubectl("set", "image", "deployment/web", `main=${image}`, "-n", "overtaken");
        if (image === "shop:3")
          await eventually("the third ReplicaSet has pods", () => Object.keys(podsCreated(history.changes())).length === 3);
        else await cluster.rolledOut("overtaken", "web", 90);
      }
      await history.stop();
      expectBounds(history, { asked: 25, ready: 15 });
      const last = momentsOf(history.changes(), "web").at(-1);
      expect(
        Object.values(last?.byReplicaSet ?? {})
          .map(({ asked }) => asked)
          .toSorted((a, b) => a - b),
      ).toEqual([0, 0, 0, 20]);
      const sets = await cluster.list<{ readonly metadata: { readonly annotations: Readonly<Record<string, string>> } }>(
        "/apis/apps/v1/namespaces/overtaken/replicasets",
      );
      expect(sets.map(({ metadata }) => metadata.annotations["deployment.kubernetes.io/revision"]).toSorted()).toEqual([
        "1",
        "2",
        "3",
        "4",
      ]);
    });

    it("[deployment T104] with strategy Recreate, no new pod runs while an old one exists", async () => {
      const history = await watched(cluster, "anew");
      await cluster.apply(inNamespace("anew", deployment("web", 1, recreate)), inNamespace("anew", deployment("more", 4, recreate)));
      for (const name of ["web", "more"]) {
        await cluster.rolledOut("anew", name);
        const change = { spec: { template: { spec: { containers: [{ name: "other", image: "shop:2" }] } } } };
        await cluster.kubectl("patch", `deployment/${name}`, "-n", "anew", "--type=merge", "-p", JSON.stringify(change));
        await cluster.rolledOut("anew", name);
        const mixed = momentsOf(history.changes(), name)
          .filter(({ byReplicaSet }) => Object.values(byReplicaSet).filter(({ live }) => live > 0).length > 1)
          .map(({ change, byReplicaSet }) => ({ after: `${change.type} ${change.kind} ${change.object.metadata.name}`, byReplicaSet }));
        expect(mixed).toEqual([]);
      }
      await history.stop();
      const statuses = history.changes().flatMap(({ kind, object }) => (kind === "Deployment" ? [object.status ?? {}] : []));
      expect(statuses.filter(({ updatedReplicas = 0, replicas = 0 }) => updatedReplicas > 0 && replicas !== updatedReplicas)).toEqual([]);
      expect(Object.values(podsCreated(history.changes())).toSorted()).toEqual([1, 1, 4, 4]);
    });

    it("[deployment T109] leaves no node without a ready pod during consecutive rollouts with pod affinity", async () => {
      const history = await watched(cluster, "balanced");
      const iterations = ["0", "1", "2", "3"];
      for (const iteration of iterations) {
        await cluster.apply(inNamespace("balanced", balanced(iteration)));
        await cluster.rolledOut("balanced", "web");
      }
      await history.stop();
      expect(Object.values(podsCreated(history.changes()))).toEqual(iterations.map(() => 2));
      const nodes = nodesWithReadyPods(history);
      expect(nodes.slice(nodes.findIndex((names) => names.length === 2)).filter((names) => names.length !== 2)).toEqual([]);
    });

    it("[informer T82] sends no request that RBAC denies, creates no pod twice, and increments Event counts by patches", async () => {
      const ours = (await cluster.audit()).filter(({ userAgent }) => userAgent?.startsWith("deltaloop/") === true);
      const work = ours.filter(
        // Omits quota rejections, which another test covers.
        ({ objectRef }) => objectRef?.resource !== "selfsubjectaccessreviews" && objectRef?.namespace !== "scarce",
      );
      expect(work.filter(({ responseStatus }) => responseStatus?.code === 403 || responseStatus?.code === 401)).toEqual([]);
      expect(new Set(work.map(({ user }) => user.username))).toEqual(
        new Set(ROLES_AT_WORK.map((role) => `system:serviceaccount:deltaloop:deltaloop-${role}`)),
      );
      const created = work.filter(({ verb, objectRef }) => verb === "create" && objectRef?.resource === "pods");
      expect(created.filter(({ responseStatus }) => responseStatus?.code !== 201)).toEqual([]);
      const writes = Map.groupBy(
        work.filter(({ verb }) => WRITE_VERBS.has(verb)),
        ({ verb, objectRef, responseStatus }) => `${verb} ${objectRef?.resource} ${responseStatus?.code}`,
      );
      // Ten or more Events of one reason are counted with a patch that a real API server accepts.
      expect(writes.get("patch events 200")?.length ?? 0).toBeGreaterThan(0);
      measured(
        `writes by our hands: ${[...writes]
          .map(([what, entries]) => `${what}: ${entries.length}`)
          .toSorted()
          .join(", ")}`,
      );
    });
  });
});

/**
 * Two pods on two nodes: with anti-affinity to each other, and from the second iteration on with affinity to the previous ones. Source:
 * test/e2e/apps/deployment.go setAffinities.
 */
function balanced(iteration: string): object {
  const other = (operator: "In" | "NotIn"): object => ({
    topologyKey: "kubernetes.io/hostname",
    labelSelector: {
      matchExpressions: [
        { key: "app", operator: "In", values: ["web"] },
        { key: "iteration", operator, values: [iteration] },
      ],
    },
  });
  const affinity = {
    podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [other("In")] },
    ...(iteration !== "0" && { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [other("NotIn")] } }),
  };
  const template = {
    metadata: { labels: { app: "web", iteration } },
    spec: { containers: [{ name: "main", image: "shop:1" }], affinity },
  };
  return deployment("web", 2, { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }, template });
}

/** Returns, after each change of a pod, the nodes with a ready pod that is not terminating. */
function nodesWithReadyPods(history: History): readonly (readonly string[])[] {
  const ready = new Map<string, string>();
  return history.changes().flatMap(({ kind, type, object: { metadata, spec, status } }) => {
    if (kind !== "Pod") return [];
    const isReady = status?.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True") === true;
    if (type === "DELETED" || metadata.deletionTimestamp !== undefined || !isReady) ready.delete(metadata.uid);
    else ready.set(metadata.uid, spec?.nodeName ?? "");
    return [[...new Set(ready.values())]];
  });
}

/** Waits until size, status and generation agree. */
async function sizeSettles(cluster: Cluster, namespace: string, size: number): Promise<Owner> {
  return await eventually(`status.replicas ${size}`, async () => {
    const owner = await cluster.get<Owner>(`/apis/apps/v1/namespaces/${namespace}/replicasets/web`);
    return owner && owner.status?.replicas === size && owner.status.observedGeneration === owner.metadata.generation ? owner : undefined;
  });
}

interface Owner {
  readonly metadata: { readonly generation?: number };
  readonly status?: { readonly replicas?: number; readonly observedGeneration?: number };
}

/**
 * Checks the bounds from the time on at which the minimum number of pods is ready: the ReplicaSets' sizes never exceed the surge, and the
 * number of ready pods never falls below the minimum. (As with upstream, a surplus pod may exist until its ReplicaSet's sync deletes it, so
 * the number of pods is only measured.)
 */
function expectBounds(history: History, bounds: { readonly asked: number; readonly ready: number }): void {
  const all = momentsOf(history.changes(), "web");
  const moments = all.slice(all.findIndex(({ ready }) => ready >= bounds.ready));
  const active = most(moments, (moment) => moment.active);
  measured(
    `${moments.length} moments: asked for ≤ ${most(moments, ({ asked }) => asked)}, not ending ≤ ${active}, ready ≥ ${least(moments, ({ ready }) => ready)}`,
  );
  expect(most(moments, ({ asked }) => asked)).toBe(bounds.asked);
  expect(least(moments, ({ ready }) => ready)).toBeGreaterThanOrEqual(bounds.ready);
  expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
}

async function watched(cluster: Cluster, namespace: string): Promise<History> {
  await cluster.kubectl("create", "namespace", namespace);
  return await recordHistory(cluster.client, namespace);
}

function inNamespace(namespace: string, object: object): object {
  const { metadata } = object as { readonly metadata: object }; // every object has one
  return { ...object, metadata: { ...metadata, namespace } };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
