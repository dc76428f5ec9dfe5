/**
 * Faults of a node: its runtime fails and recovers, the API server is unavailable, pods come from a manifest folder and from a URL, and the
 * machine shuts down. Runs a real API server, two of our nodes, and real containers. The tests are one sequence: each continues where the
 * previous one ended.
 */
import { rm, rename, symlink, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, expect, it } from "vitest";

import { IMAGES } from "../containerd/images.ts";
import { eventually, measured, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, refusedForGood, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import {
  answerOf,
  conditionOf,
  containerOf,
  eventsSay,
  getPod,
  isReady,
  podEnded,
  podGone,
  podOf,
  podReady,
  podWhere,
  runtimeId,
  server,
  shell,
} from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { ensureDbusMock, startPrivateBus } from "../support/private-bus.ts";
import type { PrivateBus } from "../support/private-bus.ts";
import { startTcpFront } from "../support/tcp-front.ts";
import type { TcpFront } from "../support/tcp-front.ts";

const noBus = ensureDbusMock();
/** Limit in ms for a status change: a node polls its runtime every 5 s and reports its status every 10 s. */
const TOLD_MS_MAX = 40_000;
/** A token in the URL's request header, which must not appear in a log. */
const TOKEN = "hunter2-of-the-url";
const MIRROR = "kubernetes.io/config.mirror";
const HASH = "kubernetes.io/config.hash";

interface NodeView {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly conditions: readonly { readonly type: string; readonly status: string; readonly reason: string; readonly message: string }[];
  };
}

await whereNodesCanRun("faults of nodes of ours", () => {
  let cluster: Cluster;
  let nodes: readonly NodeAgent[];
  let hit: NodeAgent;
  let other: NodeAgent;
  let bus: PrivateBus | undefined;
  /** The proxy to the API server for the affected node, in the later tests. */
  let front: TcpFront;
  let apiPort: number;

  /** The response of the URL, and the headers of the clients' requests. */
  const url = { status: 200, pods: [] as readonly object[], asked: [] as unknown[] };
  const pods = createHttpServer((request, response) => {
    url.asked.push(request.headers["x-token"]);
    response.writeHead(url.status).end(JSON.stringify({ apiVersion: "v1", kind: "PodList", items: url.pods }));
  });

  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
    apiPort = Number(new URL(cluster.plane.url).port);
    front = await startTcpFront(apiPort);
    await new Promise<void>((resolve) => void pods.listen(0, "127.0.0.1", resolve));
    const { port } = pods.address() as AddressInfo; // it listens
    const flags = ["--manifest-url", `http://127.0.0.1:${port}/pods`, "--manifest-url-header", `X-Token: ${TOKEN}`];
    if (noBus === undefined) bus = await startPrivateBus(60_000);
    else measured(`no shutdown: ${noBus}`);
    const shutdown = ["--shutdown-grace-period", "6s", "--shutdown-grace-period-critical-pods", "2s"];
    nodes = await startNodes(cluster, ["node-a", "node-b"], {
      flags: [...flags, ...shutdown],
      // Never the host's own bus.
      environment: { DBUS_SYSTEM_BUS_ADDRESS: bus?.address ?? "unix:path=/nowhere" },
    });
    const [first, second] = nodes;
    if (first === undefined || second === undefined) throw new Error("two nodes were to start");
    [hit, other] = [first, second];
    await nodesReady(cluster, ...nodes);
  });

  afterAll(async () => {
    await Promise.all((nodes ?? []).map((node) => node.stop()));
    await bus?.end();
    await front?.stop();
    pods.closeAllConnections();
    pods.close();
    await cluster?.stop();
  });

  const readyCondition = async ({ name }: NodeAgent): Promise<NodeView["status"]["conditions"][number] | undefined> =>
    (await cluster.get<NodeView>(`/api/v1/nodes/${name}`))?.status.conditions.find(({ type }) => type === "Ready");
  const nodeIs = async (node: NodeAgent, status: "True" | "False"): Promise<string> =>
    await eventually(
      `node ${node.name} says Ready ${status}`,
      async () => {
        const condition = await readyCondition(node);
        return condition?.status === status && `${condition.reason}: ${condition.message}`;
      },
      TOLD_MS_MAX,
    );
  /** Finds containers by the static pod's UID, which differs from the mirror pod's. */
  const running = async (node: NodeAgent, { metadata: { uid, annotations } }: PodView): Promise<readonly (readonly [number, string])[]> =>
    (await node.containers(annotations?.[MIRROR] ?? uid)).map(({ metadata, state }) => [metadata.attempt, state]);
  const manifestOf = (name: string): string => join(hit.manifests, name);
  /** Writes the file as editors and configuration tools do: with a rename, so that it appears atomically. */
  const writeManifest = async (name: string, pod: object): Promise<void> => {
    await writeFile(manifestOf(`.${name}`), JSON.stringify(pod));
    await rename(manifestOf(`.${name}`), manifestOf(name));
  };

  it("a node without its runtime is NotReady, and its pods are Ready and unchanged when the runtime is back [node-agent 122]", async () => {
    const probes = { readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 } };
    const on = (node: NodeAgent, name: string, more: object = {}): object =>
      podOf(name, { nodeSelector: { "kubernetes.io/hostname": node.name }, containers: [server({ ...probes, ...more })] });
    await cluster.apply(on(hit, "stays"), on(hit, "ends", { args: ["exit", "6", "14000"], readinessProbe: null }), on(other, "elsewhere"));
    const [stays, , elsewhere] = await Promise.all(["stays", "ends", "elsewhere"].map((name) => podReady(cluster, name)));
    if (stays === undefined || elsewhere === undefined) throw new Error("no pods");

    await hit.containerd.kill();
    const from = performance.now();
    expect(await nodeIs(hit, "False")).toMatch(/^KubeletNotReady: container runtime is down/);
    measured(`NotReady ${((performance.now() - from) / 1000).toFixed(1)} s after the runtime's end`);
    expect(await answerOf(stays.status.podIP)).toBe("v1 stays\n");
    await cluster.apply(on(hit, "comes"));
    await hit.containerd.restart();
    const back = performance.now();
    expect(await nodeIs(hit, "True")).toBe("KubeletReady: kubelet is posting ready status");
    measured(`Ready ${((performance.now() - back) / 1000).toFixed(1)} s after the runtime's start`);

    const after = await podReady(cluster, "stays");
    expect(after.status.containerStatuses).toEqual(stays.status.containerStatuses);
    expect(await running(hit, after)).toEqual([[0, "CONTAINER_RUNNING"]]);
    // The control plane removed this condition with the Node; the agent has restored it.
    expect(conditionOf(after.status, "Ready")?.status).toBe("True");
    const ended = await podWhere(cluster, "ends", "was started again", (pod) => containerOf(pod).restartCount >= 1);
    expect(containerOf(ended).lastState.terminated?.exitCode).toBe(6);
    await podReady(cluster, "comes");
    expect((await getPod(cluster, "elsewhere"))?.status).toEqual(elsewhere.status);
    const told = await cluster.kubectl("describe", "node", hit.name);
    expect(told).toMatch(/Normal +NodeNotReady +.*Node node-a status is now: NodeNotReady/);
    expect(told).toMatch(/Normal +NodeReady +.*Node node-a status is now: NodeReady/);
  });

  it("reports the exit code of a container that exited while the agent was down, and keeps other containers running [node-agent 122]", async () => {
    const waits = "while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 6";
    await cluster.apply(
      podOf("told-later", { nodeSelector: { "kubernetes.io/hostname": other.name }, containers: [shell("main", waits)] }),
    );
    const [pod, elsewhere] = await Promise.all([podReady(cluster, "told-later"), podReady(cluster, "elsewhere")]);
    await other.kill();
    await other.cri.execSync(runtimeId(containerOf(pod)), ["sh", "-c", "echo > /tmp/end"], 10);
    await eventually("it ended", async () => (await running(other, pod))[0]?.[1] === "CONTAINER_EXITED");
    await other.start();
    const after = await podWhere(cluster, "told-later", "was started again", (one) => containerOf(one).restartCount === 1 && isReady(one));
    expect(containerOf(after).lastState.terminated).toMatchObject({ exitCode: 6, reason: "Error" });
    expect((await getPod(cluster, "elsewhere"))?.status).toEqual(elsewhere.status);
  });

  const staticPod = (more: object): object =>
    podOf("web", { terminationGracePeriodSeconds: 3, containers: [server(more)] }, { labels: { tier: "static" } });
  const readySandboxesOf = async (podName: string): Promise<readonly string[]> => {
    const sandboxes = await hit.cri.listPodSandbox({ state: "SANDBOX_READY" });
    return sandboxes.filter(({ metadata }) => metadata.name === podName).map(({ metadata }) => metadata.uid);
  };

  it("a static pod starts, and its mirror pod has the same status", async () => {
    // The container ignores SIGTERM, so that the test detects an agent that does not wait until the container has ended.
    await writeManifest("web.json", staticPod({ args: ["stubborn"] }));
    const mirror = await podReady(cluster, "web-node-a");
    const hash = mirror.metadata.annotations?.[HASH];
    expect(hash).toMatch(/^[0-9a-f]{32}$/);
    expect(mirror.metadata.annotations).toMatchObject({ [MIRROR]: hash, "kubernetes.io/config.source": "file" });
    expect(mirror.metadata).toMatchObject({
      labels: { tier: "static" },
      ownerReferences: [{ kind: "Node", name: "node-a", controller: true }],
    });
    expect(await readySandboxesOf("web-node-a")).toEqual([hash]);
    expect(await answerOf(mirror.status.podIP)).toBe("v1 web-node-a\n");
    expect(await cluster.kubectl("get", "pods", "web-node-a", "--no-headers")).toMatch(/^web-node-a +1\/1 +Running +0 /);
    expect(await cluster.kubectl("logs", "web-node-a")).toBe("v1 listening on 8080\n");
  });

  it("ends an edited static pod before its successor starts, with one mirror pod that has the new hash [node-agent 126]", async () => {
    const before = await podReady(cluster, "web-node-a");
    await writeManifest("web.json", staticPod({ image: IMAGES.serverV2 }));
    const oldHash = before.metadata.annotations?.[HASH];
    let togetherMax = 0;
    const after = await eventually(
      "the new one is ready",
      async () => {
        togetherMax = Math.max(togetherMax, (await readySandboxesOf("web-node-a")).length);
        const pod = await getPod(cluster, "web-node-a");
        return pod !== undefined && pod.metadata.annotations?.[HASH] !== oldHash && isReady(pod) && pod;
      },
      60_000,
    );
    expect(togetherMax).toBe(1);
    const newHash = after.metadata.annotations?.[HASH];
    expect(after.metadata.annotations?.[MIRROR]).toBe(newHash);
    expect(await answerOf(after.status.podIP)).toBe("v2 web-node-a\n");
    expect(await readySandboxesOf("web-node-a")).toEqual([newHash]);
    const mirrors = (await cluster.list<PodView>("/api/v1/namespaces/default/pods")).filter(
      ({ metadata }) => metadata.annotations?.[MIRROR] !== undefined,
    );
    expect(mirrors.map(({ metadata }) => metadata.name)).toEqual(["web-node-a"]);
  });

  it("recreates a deleted mirror pod, while its pod keeps running", async () => {
    const before = await podReady(cluster, "web-node-a");
    await cluster.kubectl("delete", "pod", "web-node-a", "--grace-period=0", "--force");
    const after = await podWhere(
      cluster,
      "web-node-a",
      "is there again",
      (pod) => pod.metadata.uid !== before.metadata.uid && isReady(pod),
    );
    expect(containerOf(after).containerID).toBe(containerOf(before).containerID);
    expect(containerOf(after).restartCount).toBe(0);
  });

  it("starts a static pod without the API server, reports it later, and kills no pod in the meantime [node-agent 121]", async () => {
    const stays = await podReady(cluster, "stays");
    const web = await podReady(cluster, "web-node-a");
    await hit.agent().stop();
    const nobody = await hit.kubeconfigTo(`https://127.0.0.1:${await closedPort()}`);
    await writeManifest("early.json", podOf("early", { containers: [server({ env: [{ name: "PORT", value: "8081" }] })] }));
    await hit.start(nobody);
    const [uid = ""] = await eventually("it runs", async () => {
      const uids = await readySandboxesOf("early-node-a");
      const [container] = uids[0] === undefined ? [] : await hit.containers(uids[0]);
      return container?.state === "CONTAINER_RUNNING" && uids;
    });
    const [early] = await hit.containers(uid);
    // Pods whose state in the API server is unknown keep running, for longer than several housekeeping periods.
    await sleep(5_000);
    for (const pod of [stays, web]) expect(await running(hit, pod)).toEqual([[0, "CONTAINER_RUNNING"]]);
    expect(await getPod(cluster, "early-node-a")).toBeUndefined();
    await hit.agent().stop();
    await hit.start(await hit.kubeconfigTo(`https://127.0.0.1:${front.port}`));
    const mirror = await podReady(cluster, "early-node-a");
    expect(containerOf(mirror)).toMatchObject({ containerID: `containerd://${early?.id}`, restartCount: 0 });
    expect((await hit.containers(uid)).map(({ id }) => id)).toEqual([early?.id]);
    expect(containerOf(await podReady(cluster, "web-node-a")).restartCount).toBe(0);
  });

  it("static pods from a URL run on each node that reads the URL [node-agent 64a]", async () => {
    url.pods = [podOf("from-url", { terminationGracePeriodSeconds: 1, containers: [server()] })];
    const pods = await Promise.all([hit, other].map(({ name }) => podReady(cluster, `from-url-${name}`)));
    for (const { metadata } of pods) expect(metadata.annotations?.["kubernetes.io/config.source"]).toBe("http");
    expect(await answerOf(pods[0]?.status.podIP)).toBe("v1 from-url-node-a\n");
  });

  it("keeps all pods while each of three sources is unavailable for some time, and then applies changes [node-agent 459]", async () => {
    try {
      const staying = ["web-node-a", "early-node-a", "from-url-node-a", "from-url-node-b", "stays", "comes"];
      const before = new Map(await Promise.all(staying.map(async (name) => [name, await podReady(cluster, name)] as const)));
      const same = async (...gone: readonly string[]): Promise<void> => {
        for (const [name, pod] of before) {
          const node = name === "from-url-node-b" ? other : hit;
          const states = (await node.containers(pod.metadata.annotations?.[MIRROR] ?? pod.metadata.uid)).map(({ id, state }) => [
            id,
            state,
          ]);
          if (!gone.includes(name)) expect(states, name).toEqual([[runtimeId(containerOf(pod)), "CONTAINER_RUNNING"]]);
        }
      };
      url.status = 503;
      const asked = url.asked.length;

      // Makes the folder unreadable; the agent would treat a missing folder as an empty one.
      await rename(hit.manifests, `${hit.manifests}.away`);
      await symlink(hit.manifests, hit.manifests);
      await eventually("it was noticed", () => hit.agent().output().includes("ELOOP"));
      await sleep(3_000);
      await same();
      await rm(hit.manifests);
      await rm(join(`${hit.manifests}.away`, "early.json"));
      await rename(`${hit.manifests}.away`, hit.manifests);
      await podGone(cluster, "early-node-a");
      await same("early-node-a");

      front.to(await closedPort());
      await cluster.kubectl("delete", "pod", "comes", "--wait=false");
      await sleep(3_000);
      await same("early-node-a");
      front.to(apiPort);
      await podGone(cluster, "comes");

      // The agents read the URL every 20 s.
      await eventually("both have asked in vain", () => url.asked.length >= asked + 2, TOLD_MS_MAX);
      await same("early-node-a", "comes");
      Object.assign(url, { status: 200, pods: [podOf("other-url", { terminationGracePeriodSeconds: 1, containers: [server()] })] });
      for (const name of ["other-url-node-a", "other-url-node-b"]) await podReady(cluster, name);
      for (const name of ["from-url-node-a", "from-url-node-b"]) await podGone(cluster, name);
      await same("early-node-a", "comes", "from-url-node-a", "from-url-node-b");
      expect(new Set(url.asked)).toEqual(new Set([TOKEN]));
      for (const node of nodes) expect(node.agent().output()).toContain("the server responded with status 503");
      for (const node of nodes) expect(node.agent().output()).not.toContain(TOKEN);
    } finally {
      front.to(apiPort);
    }
  });

  it("a static pod and its mirror pod are deleted with the manifest", async () => {
    const uids = await readySandboxesOf("web-node-a");
    await rm(manifestOf("web.json"));
    await podGone(cluster, "web-node-a");
    await eventually("its container ended", async () => (await readySandboxesOf("web-node-a")).length === 0);
    await eventually("its directory is gone", async () => !(await hit.leftovers()).directories.some((uid) => uids.includes(uid)));
    await eventsSay(cluster, "web-node-a", "Killing: Stopping container main");
    // The other pods were not affected.
    expect(containerOf(await podReady(cluster, "stays")).restartCount).toBe(0);
  });

  it.skipIf(noBus !== undefined)(
    "delays a shutdown of the machine until its pods end, and accepts pods again after a cancellation [node-agent 458]",
    async () => {
      const on = (name: string, spec: object): object => podOf(name, { nodeName: hit.name, ...spec });
      await cluster.apply(on("low", { terminationGracePeriodSeconds: 30, containers: [server({ args: ["stubborn"] })] }));
      await cluster.apply(
        on("critical", { priorityClassName: "system-node-critical", containers: [server({ env: [{ name: "PORT", value: "8082" }] })] }),
      );
      await Promise.all(["low", "critical"].map((name) => podReady(cluster, name)));
      expect(bus?.locks()).toEqual(["deltaloop node shutdown delay", "deltaloop node shutdown delay"]);

      const saidMs = Date.now();
      bus?.prepareForShutdown(true);
      expect(await nodeIs(hit, "False")).toBe("KubeletNotReady: node is shutting down");
      await cluster.apply(on("turned-away", { containers: [server()] }));
      const late = await podEnded(cluster, "turned-away");
      expect(late.status).toMatchObject({
        reason: "NodeShutdown",
        message: "Pod was rejected: Pod was rejected as the node is shutting down.",
      });
      expect(bus?.locks().length).toBeGreaterThan(0);
      const [low, critical] = await Promise.all(["low", "critical"].map((name) => podEnded(cluster, name)));
      for (const pod of [low, critical]) {
        const message = "Pod was terminated in response to imminent node shutdown.";
        expect(pod?.status).toMatchObject({ phase: "Failed", reason: "Terminated", message });
        expect(pod && conditionOf(pod.status, "DisruptionTarget")).toMatchObject({
          status: "True",
          reason: "TerminationByKubelet",
          message,
        });
      }
      const ends = [low, critical].map((pod) => pod && Date.parse(containerOf(pod).state.terminated?.finishedAt ?? ""));
      // The pod's 4 s and the agent's wait for the pod end at the same time, and end times are reported in whole seconds.
      expect(ends[1]).toBeGreaterThanOrEqual(saidMs + 3_000);
      expect(ends[0]).toBeLessThanOrEqual((ends[1] ?? NaN) + 1_000);
      await eventually("the locks are let go", () => bus?.locks().length === 0);

      bus?.prepareForShutdown(false);
      expect(await nodeIs(hit, "True")).toBe("KubeletReady: kubelet is posting ready status");
      await eventually("there are locks again", () => bus?.locks().length === 2);
      await cluster.apply(on("after", { containers: [server()] }));
      await podReady(cluster, "after");
      expect(await cluster.kubectl("describe", "node", hit.name)).toMatch(
        /NodeShutdown +.*Shutdown manager detected shutdown cancellation/u,
      );
    },
  );

  it("no node sends a request that the API server forbids", async () => {
    expect(await refusedForGood(cluster)).toEqual([]);
  });
});

/** Returns a port on which no server listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  await new Promise((resolve) => server.close(resolve));
  return port;
}
