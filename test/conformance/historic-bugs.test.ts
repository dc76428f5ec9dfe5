/**
 * Bugs that other controllers and kubelets had. Each test repeats the schedule that triggered the bug, and asserts the right behaviour. The
 * table at the end lists all bugs, and names the tests of other files that show one.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { UnansweredError } from "../../shared/kube/client/errors.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import { startedNode, type NodeHarness } from "../harness/node/node.ts";
import { SyncHarness } from "../harness/sync/sync.ts";
import { createSimulatedKube } from "../simulation/kube.ts";
import { rawClientIn } from "../support/raw-client.ts";
import { testSigner } from "../support/signer.ts";
import { silentLog } from "../support/silent-log.ts";
import { replicaSet } from "../support/workloads.ts";
import { liveDeployment, liveReplicaSet, podTemplate } from "../unit/deployment/live-objects.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

describe("pods of a ReplicaSet", () => {
  /** Syncs every ten seconds while heartbeats arrive and events do not. @returns the largest number of pods */
  async function syncWithoutEvents(harness: SyncHarness, forMs: number): Promise<number> {
    let most = harness.pods.length;
    for (let passedMs = 0; passedMs < forMs; passedMs += 10 * SECOND_MS) {
      await harness.clock.advance(10 * SECOND_MS);
      await harness.heartbeat();
      await harness.sync();
      most = Math.max(most, harness.pods.length);
    }
    return most;
  }

  const created = (harness: SyncHarness): readonly string[] =>
    harness.api.calls.filter(({ verb, resource }) => verb === "create" && resource === "pods").map(({ name }) => name);
  const deletes = (harness: SyncHarness): number => harness.api.writes.filter((write) => write === "delete pods").length;

  /**
   * The ReplicaSet controller creates pods, and their events do not arrive for more than five minutes. Its expectations expire, expired
   * expectations count as fulfilled, and it creates the pods once more. Here each sync is a new invocation without memory, so this is also
   * the case of a restarted controller.
   */
  it.each([
    { what: "and the responses are lost, too", fate: "lost" },
    { what: "although the responses arrived", fate: undefined },
  ] as const)(
    "kubernetes#129795: creates no surplus pods while the pods' events are more than five minutes late, $what",
    async ({ fate }) => {
      const harness = await SyncHarness.create();
      await harness.api.put("replicasets", replicaSet({ replicas: 3 }));
      await harness.stream();
      harness.api.script = { "create pods": fate };
      await harness.sync();
      expect(harness.pods.length).toBeGreaterThan(0);
      harness.api.script = {};
      expect(await syncWithoutEvents(harness, 6 * MINUTE_MS)).toBe(3);
      await harness.stream();
      await harness.sync();
      expect(harness.pods).toHaveLength(3);
      expect(new Set(created(harness)).size).toBe(3);
      expect(deletes(harness)).toBe(0);
    },
  );

  /**
   * The timeout of expectations had been shortened. Under load, a ReplicationController with 60 replicas was synced again before all events
   * of its creates had arrived: 61 pods existed, and one of them was deleted.
   */
  it("kubernetes#22134: a ReplicationController of 60 creates no 61st pod when it is synced while a part of its pods' events is late", async () => {
    const harness = await SyncHarness.create({ controller: "replicationcontroller" });
    const { spec, ...rest } = replicaSet({ replicas: 60 });
    await harness.api.put("replicationcontrollers", { ...rest, spec: { ...spec, selector: { app: "web" } } });
    await harness.stream();
    harness.api.script = { "create pods": (_, nth) => (nth % 20 === 7 ? "lost" : nth % 20 === 9 ? "never" : undefined) };
    await harness.sync();
    const early = new Set(harness.pods.slice(0, 40).map(({ metadata }) => metadata.name));
    await harness.stream(({ resource, object }) => resource !== "pods" || early.has(object.metadata.name));
    expect(await syncWithoutEvents(harness, MINUTE_MS)).toBe(60);
    await harness.stream();
    await harness.sync();
    expect(harness.pods).toHaveLength(60);
    expect(deletes(harness)).toBe(0);
  });

  /**
   * A node rejects each pod of a ReplicaSet: the template names the node, and the node does not match the template's selector. The
   * ReplicaSet replaces each rejected pod, and hundreds of Failed pods pile up. Upstream still does so (kubernetes#72593 is open, and no
   * back-off was merged), and so do we: exactly one new pod for each rejected one, and no Failed pod is deleted.
   */
  it("kubernetes#43846: a pod that its node rejects is replaced by exactly one pod, and stays, as upstream does", async () => {
    const harness = await SyncHarness.create();
    await harness.api.put("replicasets", replicaSet({ replicas: 1 }));
    await harness.stream();
    await harness.sync();
    const active = () => harness.pods.filter(({ status }) => status?.["phase"] !== "Failed");
    for (let rejected = 1; rejected <= 20; rejected++) {
      const [name = ""] = active().map(({ metadata }) => metadata.name);
      await harness.api.change("pods", name, () => ({ status: { phase: "Failed", reason: "NodeAffinity", message: "Pod was rejected" } }));
      await harness.stream();
      await harness.ring();
      await harness.sync();
      expect([harness.pods.length, active().length, deletes(harness)]).toEqual([rejected + 1, 1, 0]);
    }
    await harness.stream();
    await harness.clock.advance(SECOND_MS);
    await harness.ring();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 1 });
  });

  /**
   * A spec change arrives while the controller writes the status. The controller takes every event up to its own write for an echo of this
   * write, and drops the change with it.
   */
  it.each([
    { when: "before the status write is executed", late: false },
    { when: "between the status write and its response, which is lost", late: true },
  ])("JOSDK#3398: a spec change $when is reconciled, although the watch shows both as one event", async ({ late }) => {
    const harness = await SyncHarness.create();
    await harness.api.put("replicasets", replicaSet({ replicas: 1 }));
    await harness.stream();
    await harness.sync();
    await harness.stream();
    await harness.ring();
    expect(await harness.queuedInMs()).toBeUndefined();

    const [name = ""] = harness.pods.map(({ metadata }) => metadata.name);
    await harness.api.change("pods", name, () => ({ status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] } }));
    await harness.stream();
    await harness.clock.advance(SECOND_MS);
    const resize = async (): Promise<void> => {
      harness.api.script = {};
      await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 4 } }));
    };
    harness.api.script = late ? { "patch replicasets/status": "lost", "get replicasets": resize } : { "patch replicasets/status": resize };
    await harness.ring();
    const { metadata, status } = harness.api.find("replicasets", "web");
    const { generation, resourceVersion } = metadata;
    // Before: the write names the version that it was decided on, and is rejected.
    expect([generation, status?.["readyReplicas"] ?? 0]).toEqual([2, late ? 1 : 0]);
    expect(harness.pods).toHaveLength(1);
    await harness.stream(({ resource, object }) => resource !== "replicasets" || object.metadata.resourceVersion === resourceVersion);
    await harness.clock.advance(SECOND_MS);
    await harness.ring();
    expect(harness.pods).toHaveLength(4);
    await harness.stream();
    await harness.clock.advance(SECOND_MS);
    await harness.ring();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 4, readyReplicas: 1, observedGeneration: 2 });
  });
});

describe("rollouts", () => {
  const conditionOf = (harness: SyncHarness, type: string): Readonly<Record<string, unknown>> | undefined =>
    (harness.live("deployments", "web").status?.["conditions"] as readonly Readonly<Record<string, unknown>>[] | undefined)?.find(
      (condition) => condition["type"] === type,
    );

  /**
   * A Deployment had completed its last rollout longer ago than its deadline. A new ReplicaSet triggered a sync before the cache showed the
   * condition that its creation had set, and the deadline was counted from the earlier rollout.
   */
  it("kubernetes#49637: a new rollout does not exceed its deadline because of the time since the last one", async () => {
    const completed = {
      type: "Progressing",
      status: "True",
      reason: "NewReplicaSetAvailable",
      message: "",
      lastUpdateTime: "2026-03-01T09:00:00Z",
    };
    const harness = await SyncHarness.of([
      liveDeployment(2, {
        annotations: { "deployment.kubernetes.io/revision": "1" },
        spec: { progressDeadlineSeconds: 60, template: podTemplate("v2") },
        status: { observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [completed] },
      }),
      liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [2, 3] }),
    ]);
    const reasons: unknown[] = [];
    harness.api.script = { "patch deployments/status": "never" }; // the condition of the new ReplicaSet does not reach the API server
    await harness.sync();
    expect(harness.names("replicasets")).toHaveLength(2);
    await harness.stream(); // the event of the new ReplicaSet
    harness.api.script = {};
    for (let turn = 0; turn < 6; turn++) {
      await harness.clock.advance(5 * SECOND_MS);
      await harness.stream();
      await harness.sync();
      reasons.push(conditionOf(harness, "Progressing")?.["reason"]);
    }
    expect(reasons).toEqual(reasons.map(() => "NewReplicaSetAvailable"));
    expect(conditionOf(harness, "Progressing")).toMatchObject({ status: "True" });

    // From the first progress of this rollout on, its own deadline applies.
    await harness.settle((rs) => (rs.metadata.name === "web-1" ? Number(rs.spec?.["replicas"]) : 0));
    await harness.sync();
    expect(conditionOf(harness, "Progressing")).toMatchObject({ status: "True", reason: "ReplicaSetUpdated" });
    for (const [afterMs, reason] of [
      [59 * SECOND_MS, "ReplicaSetUpdated"],
      [2 * SECOND_MS, "ProgressDeadlineExceeded"],
    ] as const) {
      await harness.clock.advance(afterMs);
      await harness.stream();
      await harness.sync();
      expect(conditionOf(harness, "Progressing")).toMatchObject({ reason });
    }
  });

  /**
   * A rollout with maxSurge 0 creates new pods while old pods are terminating, so more pods exist than replicas plus maxSurge. This is still
   * upstream's behaviour: terminating pods are reported in `.status.terminatingReplicas`, and are not counted against maxSurge.
   */
  it("kubernetes#95498: terminating pods are not counted against maxSurge, and are reported, as upstream does", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(2, { image: "v2", surge: 0, unavailable: 1 }),
      liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [2, 2] }),
    ]);
    const report = async (name: string, status: object): Promise<void> => {
      const generation = harness.live("replicasets", name).metadata.generation ?? 1;
      await harness.api.change("replicasets", name, () => ({ status: { ...status, observedGeneration: generation } }));
      await harness.stream();
    };
    await harness.sync();
    const fresh = harness.names("replicasets").find((name) => name !== "web-1") ?? "";
    expect(harness.sizes()).toEqual({ "web-1": 1, [fresh]: 0 });
    await report(fresh, { replicas: 0, terminatingReplicas: 0 });
    await report("web-1", { replicas: 1, readyReplicas: 1, availableReplicas: 1, terminatingReplicas: 1 });
    await harness.sync();
    expect(harness.sizes()).toEqual({ "web-1": 1, [fresh]: 1 });
    await harness.stream();
    await harness.sync();
    expect(harness.live("deployments", "web").status).toMatchObject({ replicas: 1, terminatingReplicas: 1 });
  });
});

describe("a node", () => {
  const APP = { name: "app", image: "app:1" };
  const HELD = { finalizers: ["example.com/held"] };

  /** Removes all containers and sandboxes, as a reboot does with a runtime on a memory file system. */
  async function emptyRuntime({ cri }: NodeHarness): Promise<void> {
    for (const { id } of await cri.listContainers()) {
      await cri.stopContainer(id, 0);
      await cri.removeContainer(id);
    }
    for (const { id } of await cri.listPodSandbox()) {
      await cri.stopPodSandbox(id);
      await cri.removePodSandbox(id);
    }
  }
  const starts = (node: NodeHarness, since: number): readonly string[] =>
    node.calls
      .slice(since)
      .map(({ verb }) => verb)
      .filter((verb) => ["runPodSandbox", "createContainer", "startContainer"].includes(verb));
  const stateOf = (node: NodeHarness, name: string) => node.pod(name)?.status?.containerStatuses?.[0];

  /** Makes the API server answer reads of pods as one whose watch cache is frozen: only reads that must be consistent see newer states. */
  function staleFrom({ server }: NodeHarness) {
    const request = server.request.bind(server);
    const tooLarge = { kind: "Status", code: 504, reason: "Timeout", message: "Too large resource version" };
    const api = {
      streamed: false,
      answeredFromCache: [] as object[],
      async freeze(): Promise<void> {
        const list = await request({ method: "GET", path: "/api/v1/pods", query: { fieldSelector: "spec.nodeName=n1" } });
        const cachedVersion = list.kind === "object" && (list.body["metadata"] as { readonly resourceVersion: string }).resourceVersion; // a list
        if (!cachedVersion) throw new Error("the pods were not listed");
        server.request = async (given) => {
          const { method, path, query = {} } = given;
          if (method !== "GET" || path !== "/api/v1/pods") return await request(given);
          const {
            resourceVersion: version,
            watch,
            sendInitialEvents,
          } = query instanceof URLSearchParams ? Object.fromEntries(query) : query;
          const isStream = sendInitialEvents !== undefined;
          if (isStream) api.streamed = true;
          if (version === undefined && (watch === undefined || isStream)) return await request(given);
          if (version === undefined || BigInt(String(version)) <= BigInt(cachedVersion)) {
            api.answeredFromCache.push(query);
            return list;
          }
          // A watch without initial events waits until the cache has its version.
          const isWatch = watch !== undefined && !isStream;
          return isWatch ? await request(given) : { kind: "object", status: 504, headers: {}, body: tooLarge };
        };
      },
      thaw: (): void => void (server.request = request),
    };
    return api;
  }

  /**
   * A kubelet restarts and lists its pods from the watch cache of another API server, which is behind. The list contains a pod that was
   * deleted and recreated on another node, and the kubelet starts it again, so that two pods of one identity run.
   */
  it.each([
    { lists: "in pages", seed: 1 },
    { lists: "as a stream", seed: 2 },
  ])(
    "kubernetes#59848: a restarted agent that lists $lists does not start a deleted pod that a stale API server still has in its watch cache",
    async ({ lists, seed }) => {
      const node = await startedNode({ seed });
      const uid = await node.create("web-0", { containers: [APP] });
      await node.until("ready", () => node.isReady("web-0"));
      const api = staleFrom(node);
      node.kill();
      await emptyRuntime(node);
      await api.freeze();
      await node.delete("web-0", 0);
      const elsewhere = await node.create("web-0", { nodeName: "n2", containers: [APP] });

      const before = node.calls.length;
      node.start();
      await node.advance(MINUTE_MS);
      expect(api.streamed).toBe(lists === "as a stream");
      expect(starts(node, before)).toEqual([]);
      expect(api.answeredFromCache).toEqual([]);
      expect(await node.containers(uid)).toEqual([]);
      expect(node.pod("web-0")?.metadata.uid).toBe(elsewhere);

      api.thaw();
      await node.create("web-1", { containers: [APP] });
      await node.until("the agent works once the cache has caught up", () => node.isReady("web-1"));
      expect(await node.containers(uid)).toEqual([]);
    },
  );

  /**
   * The kubelet recognized a pod that has ended by its dead containers, and skipped only pods in phase Failed. After a cold start without
   * these containers, it started a pod in phase Succeeded again.
   */
  it.each(["Never", "OnFailure"])("kubernetes#7250: a cold start does not run a Succeeded pod again (%s)", async (restartPolicy) => {
    const node = await startedNode({ images: { "ends:1": { exitAfterMs: 2 * SECOND_MS } } });
    await node.create("job", { restartPolicy, containers: [{ ...APP, image: "ends:1" }] });
    await node.until("succeeded", () => node.phase("job") === "Succeeded");
    node.kill();
    await emptyRuntime(node);
    const before = node.calls.length;
    node.start(); // also without the records of the earlier process
    await node.advance(2 * MINUTE_MS);
    expect(starts(node, before)).toEqual([]);
    expect(node.phase("job")).toBe("Succeeded");
    expect(stateOf(node, "job")?.state?.terminated?.exitCode).toBe(0);
  });

  /**
   * A container failed in a pod with restart policy Never, and a client deleted the pod. The kubelet reset the states of the pod's
   * containers when it terminated the pod, and the pod changed from Failed to Succeeded.
   */
  it.each([
    { what: "had failed before", image: { exitAfterMs: 5 * SECOND_MS, exitCode: 2 }, fails: true },
    { what: "fails while it is stopped", image: { stopAfterMs: 3 * SECOND_MS, stopExitCode: 2 }, fails: false },
  ])(
    "kubernetes#58711: a deleted pod stays Failed, with its exit code, if its container $what and is then removed",
    async ({ image, fails }) => {
      const node = await startedNode({ images: { "fails:1": image } });
      await node.create("deploy", { restartPolicy: "Never", containers: [{ ...APP, image: "fails:1" }] }, HELD);
      await node.until("runs", () => node.phase("deploy") === "Running");
      if (fails) await node.until("failed", () => node.phase("deploy") === "Failed");
      await node.delete("deploy");
      await node.until("failed", () => node.phase("deploy") === "Failed");
      await emptyRuntime(node);
      for (const restarts of [false, true]) {
        if (restarts) node.start();
        await node.advance(MINUTE_MS); // throws if a terminal phase changes (NR4)
        expect(node.phase("deploy")).toBe("Failed");
        expect(stateOf(node, "deploy")?.state?.terminated?.exitCode).toBe(2);
      }
    },
  );

  /**
   * A container exits while the API server is unavailable, and the node's agent ends before it could report this. When both are back, the
   * agent starts the container again, and nothing shows that it ever exited.
   */
  it.each([
    { policy: "Never", runtime: "keeps", want: { phase: "Failed", restarts: 0, code: 3, starts: [] } },
    { policy: "Always", runtime: "keeps", want: { phase: "Running", restarts: 1, code: 3 } },
    { policy: "Always", runtime: "loses", want: { phase: "Running", restarts: 1, code: 137 } },
    // Upstream, too, counts a restart for a container that it no longer finds.
    { policy: "Never", runtime: "loses", want: { phase: "Failed", restarts: 1, code: 137, starts: [] } },
  ])(
    "virtual-kubelet#762: an exit that the agent could not report before it was killed is reported later ($policy, the runtime $runtime the container)",
    async ({ policy, runtime, want }) => {
      const node = await startedNode({ images: { "ends:1": { exitAfterMs: 30 * SECOND_MS, exitCode: 3 } } });
      await node.create("p", { restartPolicy: policy, containers: [{ ...APP, image: "ends:1" }] });
      await node.until("runs", () => node.phase("p") === "Running");
      let isDown = true;
      node.fateOf = ({ port }) => (port === "kube" && isDown ? { fail: new UnansweredError("connection refused") } : "live");
      await node.advance(25 * SECOND_MS);
      await node.until("it has exited", async () => (await node.containers()).some(({ state }) => state === "CONTAINER_EXITED"));
      node.kill();
      if (runtime === "loses") await emptyRuntime(node);
      isDown = false;
      const before = node.calls.length;
      node.start();
      await node.advance(20 * SECOND_MS);
      const status = stateOf(node, "p");
      const ended = status?.state?.terminated ?? status?.lastState?.terminated;
      expect([node.phase("p"), status?.restartCount, ended?.exitCode]).toEqual([want.phase, want.restarts, want.code]);
      if (want.starts !== undefined) expect(starts(node, before)).toEqual(want.starts);
    },
  );
});

/** A source of events opened one watch per namespace and resource, so that many namespaces overloaded the API server. */
it("knative/eventing#8675: the number of watches does not depend on the number of namespaces", async () => {
  const watchesWith = async (namespaces: number): Promise<readonly string[]> => {
    const clock = createVirtualClock(Date.parse("2026-03-01T10:00:00Z"));
    const random = createSeededRandom(1);
    const server = createApiServer({ clock, random: createSeededRandom(2) });
    const person = rawClientIn(server);
    for (let i = 0; i < namespaces; i++) {
      const namespace = `team-${i}`;
      await person.request("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
      const { metadata, spec } = replicaSet({ replicas: 1 });
      await person.request("POST", `/apis/apps/v1/namespaces/${namespace}/replicasets`, { metadata: { name: metadata.name }, spec });
    }
    const watches: string[] = [];
    server.onRequest(({ verb, resource, userAgent }) => {
      if (verb === "watch") watches.push(`${userAgent} ${resource}`);
    });
    const digester = createDigester("watches");
    const cluster = "0123456789ab";
    const system = assembleSystem(
      {
        ...{ clock, random, digester, signer: testSigner(cluster), log: silentLog, functions: functionHandlers },
        kube: (component: string) =>
          createSimulatedKube({ server, clock, random: createSeededRandom(3), component, faults: () => ({ api: 0, watch: 0 }) }),
        ...memoryBackend({ clock, random, digester, deployment: "watches", cluster }),
      },
      { cluster, clusterUid: "uid", lease: { namespace: "kube-system", name: "watches" } },
    );
    await clock.advance(MINUTE_MS);
    const pods: { readonly items: readonly unknown[] } = await person.list("/api/v1/pods");
    expect(pods.items).toHaveLength(namespaces);
    const stopped = system.stop();
    await clock.advance(MINUTE_MS);
    await stopped;
    server.close();
    return watches.toSorted();
  };
  const few = await watchesWith(1);
  expect(few.length).toBeGreaterThan(0);
  expect(await watchesWith(40)).toEqual(few);
});

/** The bugs of this file, and the tests of other files that already show one. */
const SHOWN_BY: readonly { readonly bug: string; readonly what: string; readonly file: string; readonly title: string }[] = [
  ...[
    "kubernetes#59848",
    "kubernetes#129795",
    "kubernetes#22134",
    "kubernetes#49637",
    "kubernetes#95498",
    "kubernetes#58711",
    "kubernetes#7250",
    "kubernetes#43846",
    "virtual-kubelet#762",
    "knative/eventing#8675",
    "JOSDK#3398",
  ].map((bug) => ({ bug, what: "see above", file: "test/conformance/historic-bugs.test.ts", title: `${bug}: ` })),
  {
    bug: "kubernetes#29735",
    what: "two templates have one hash: the name of the new ReplicaSet is taken, and the rollout is stuck",
    file: "test/unit/deployment/sync.test.ts",
    title:
      "[deployment T97] increments the collision count when a ReplicaSet with another template has the name, and the next attempt uses another name",
  },
  {
    bug: "kubernetes#59848",
    what: "the same for controllers: their list is older than the state on which they acted before",
    file: "test/unit/cache/watcher.test.ts",
    title: "[informer T52] adds nothing from the restored API server to the cache of the old epoch",
  },
  {
    bug: "metacontroller#1177",
    what: "what another client changes in an object that is written by server-side apply stays changed",
    file: "test/unit/sdk/writes.test.ts",
    title: "is applied when its content changed",
  },
];

it.each(SHOWN_BY)("the test that shows $bug exists in $file", ({ file, title }) => {
  expect(readFileSync(file, "utf8").includes(`"${title}`)).toBe(true);
});
