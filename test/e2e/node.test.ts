/**
 * A ReplicaSet, a ReplicationController and a Deployment on the whole product: a real API server and scheduler, deltaloop's controllers in
 * `deltaloop dev --act`, two of our nodes, and real containers. The tests are one sequence: each continues where the previous one ended.
 */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { LABELS } from "../../shared/node-agent/kubelet/types/labels.ts";
import { IMAGES } from "../containerd/images.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { eventually, measured, startCluster, startDev } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { nodesReady, refusedForGood, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import { answerOf, containerOf, isReady, podGone, podOf, podReady, runtimeId, server } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";

const PODS = "/api/v1/namespaces/default/pods";
const ROLLOUT_SECONDS_MAX = 90;
/** Limit in ms: the agent collects garbage every minute. */
const COLLECTED_MS_MAX = 100_000;
/** Times in ms at which the agent is killed: before, while and after it starts the new pods. */
const KILLED_AFTER_MS = [0, 150, 400];
const labels = { app: "web" };
const web = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web" },
  spec: {
    replicas: 4,
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        terminationGracePeriodSeconds: 5,
        containers: [
          server({
            ports: [{ containerPort: 8080 }],
            readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
            livenessProbe: { httpGet: { path: "/", port: 8080 }, periodSeconds: 2 },
          }),
        ],
      },
    },
  },
};

await whereNodesCanRun("a Deployment on nodes of ours", () => {
  let cluster: Cluster;
  let nodes: readonly NodeAgent[];
  let dev: Running;

  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
    nodes = await startNodes(cluster, ["node-a", "node-b"]);
    dev = await startDev(cluster);
    await nodesReady(cluster, ...nodes);
  });

  afterAll(async () => {
    await dev?.stop();
    await Promise.all((nodes ?? []).map((node) => node.stop()));
    await cluster?.stop();
  });

  const livePods = async (): Promise<readonly PodView[]> =>
    (await cluster.list<PodView>(PODS)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const nodeOf = (pod: PodView | undefined): NodeAgent => {
    const found = nodes.find(({ name }) => name === pod?.spec.nodeName);
    if (found === undefined) throw new Error(`no node of ours has pod ${pod?.metadata.name}`);
    return found;
  };
  /** Waits until all pods of the Deployment are on our nodes, are Ready, and respond. */
  const allAnswer = async (version: string, count: number): Promise<readonly PodView[]> => {
    const pods = await eventually(`${count} pods are ready`, async () => {
      const found = await livePods();
      return found.length === count && found.every(isReady) && found;
    });
    for (const pod of pods) expect(await answerOf(pod.status.podIP)).toBe(`${version} ${pod.metadata.name}\n`);
    return pods;
  };
  /**
   * Checks the runtimes: each pod has one container that ever started, which is running, and one ready sandbox. A container that was
   * created but not started, because the agent was killed in between, is never started; a new attempt replaces it (node-agent §18.8).
   */
  const startedOnce = async (pods: readonly PodView[]): Promise<void> => {
    for (const pod of pods) {
      const { cri } = nodeOf(pod);
      const instances = await Promise.all((await nodeOf(pod).containers(pod.metadata.uid)).map(({ id }) => cri.containerStatus(id)));
      const started = instances.filter(({ startedAtMs }) => startedAtMs !== undefined);
      expect(started.map(({ metadata, state }) => ({ ...metadata, state }))).toEqual([
        { name: "main", attempt: containerOf(pod).restartCount, state: "CONTAINER_RUNNING" },
      ]);
      const sandboxes = await cri.listPodSandbox({ labelSelector: { [LABELS.podUid]: pod.metadata.uid }, state: "SANDBOX_READY" });
      expect(sandboxes).toHaveLength(1);
    }
  };

  it("[replicaset 110] [replicaset 118] all replicas of a ReplicaSet and a ReplicationController serve", async () => {
    await cluster.kubectl("create", "namespace", "bare");
    const replicated = (kind: "ReplicaSet" | "ReplicationController"): object => {
      const own = { app: kind };
      return {
        apiVersion: kind === "ReplicaSet" ? "apps/v1" : "v1",
        kind,
        metadata: { name: "web", namespace: "bare" },
        spec: {
          replicas: 2,
          selector: kind === "ReplicaSet" ? { matchLabels: own } : own,
          template: { metadata: { labels: own }, spec: { terminationGracePeriodSeconds: 1, containers: [server()] } },
        },
      };
    };
    const from = performance.now();
    await cluster.apply(replicated("ReplicaSet"), replicated("ReplicationController"));
    const pods = await eventually("four pods are ready", async () => {
      const found = await cluster.list<PodView>("/api/v1/namespaces/bare/pods");
      return found.length === 4 && found.every(isReady) && found;
    });
    for (const pod of pods) expect(await answerOf(pod.status.podIP)).toBe(`v1 ${pod.metadata.name}\n`);
    measured(
      `two pods each of a ReplicaSet and a ReplicationController answered after ${((performance.now() - from) / 1000).toFixed(1)} s`,
    );
    // Does not delete the namespace, because the API server would then reject the node's Events.
    await cluster.kubectl("delete", "replicaset/web", "replicationcontroller/web", "-n", "bare");
    await eventually("no pod is left", async () => (await cluster.list("/api/v1/namespaces/bare/pods")).length === 0, 60_000);
  });

  describe("a Deployment of four", () => {
    it("a Deployment starts pods on both nodes, which serve on their addresses", async () => {
      const from = performance.now();
      await cluster.apply(web);
      await cluster.rolledOut("default", "web", ROLLOUT_SECONDS_MAX);
      measured(`four real pods rolled out in ${((performance.now() - from) / 1000).toFixed(1)} s`);
      const pods = await allAnswer("v1", 4);
      expect(new Set(pods.map(({ spec }) => spec.nodeName))).toEqual(new Set(["node-a", "node-b"]));
      await startedOnce(pods);
    });

    it("kubectl get and describe show a Deployment as on any cluster", async () => {
      const [pod] = await livePods();
      const { name } = pod?.metadata ?? { name: "" };
      const { podIP } = pod?.status ?? {};
      const wide = await cluster.kubectl("get", "pods", "-o", "wide");
      expect(wide).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES\n/);
      expect(wide).toMatch(new RegExp(`\n${name} +1/1 +Running +0 +\\S+ +${podIP} +${pod?.spec.nodeName} +<none> +<none>\n`));

      const described = await cluster.kubectl("describe", "pod", name);
      for (const line of [
        `Node: +${pod?.spec.nodeName}/127.0.0.1`,
        "Status: +Running",
        `IP: +${podIP}`,
        "Controlled By: +ReplicaSet/web-\\w+",
        "    Container ID: +containerd://[0-9a-f]{64}",
        "    Image: +localhost/server:v1",
        "    State: +Running",
        "    Ready: +True",
        "    Restart Count: +0",
        "    Liveness: +http-get http://:8080/ delay=0s timeout=1s period=2s successThreshold=1 failureThreshold=3",
        ...["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => `  ${type} +True *`),
        "QoS Class: +BestEffort",
        `  Normal +Scheduled .* default-scheduler +Successfully assigned default/${name} to ${pod?.spec.nodeName}`,
        '  Normal +Pulled .* kubelet +.*Container image "localhost/server:v1" already present on machine and can be accessed by the pod',
        "  Normal +Created .* kubelet +.*Container created",
        "  Normal +Started .* kubelet +.*Container started",
      ])
        expect(described).toMatch(new RegExp(`^${line}$`, "m"));
      // A probe may have run while the sandbox's network was being created; no other warning is expected.
      expect(described).not.toMatch(/Warning +(?!Unhealthy)/);

      const node = await cluster.kubectl("describe", "node", "node-a");
      for (const line of [
        "Labels: +.*",
        " +kubernetes.io/hostname=node-a",
        "  HolderIdentity: +node-a",
        "  MemoryPressure +False .* KubeletHasSufficientMemory +kubelet has sufficient memory available",
        "  DiskPressure +False .* KubeletHasNoDiskPressure +kubelet has no disk pressure",
        "  PIDPressure +False .* KubeletHasSufficientPID +kubelet has sufficient PID available",
        "  Ready +True .* KubeletReady +kubelet is posting ready status",
        "  InternalIP: +127.0.0.1",
        "  Hostname: +node-a",
        "  pods: +110",
        "  Container Runtime Version: +containerd://.+",
        `  Kubelet Version: +${KUBERNETES_VERSION}`,
        "Non-terminated Pods: +\\([1-9] in total\\)",
        "  Normal +Starting .*",
      ])
        expect(node).toMatch(new RegExp(`^${line}$`, "m"));
      expect(await cluster.kubectl("get", "nodes", "--no-headers")).toMatch(
        new RegExp(`^node-a +Ready +<none> +\\S+ +${KUBERNETES_VERSION}\nnode-b +Ready +<none> .*\n$`),
      );
    });

    it("a Deployment's pods serve kubectl logs and exec through their nodes [node-agent 102]", async () => {
      const [pod] = await livePods();
      const name = pod?.metadata.name ?? "";
      expect(await cluster.kubectl("logs", name, "--tail=1")).toBe("v1 listening on 8080\n");
      expect(await cluster.kubectl("exec", name, "--", "/server", "exit", "0")).toBe("ending with 0\n");
      await expect(cluster.kubectl("exec", name, "--", "/server", "exit", "7")).rejects.toThrow("exit code 7");

      const follower = await follow(name);
      const stopped = nodeOf(pod).cri.stopContainer(runtimeId(containerOf(pod ?? fail())), 5);
      await eventually("what it says at its end", () => follower.output().includes("got SIGTERM, ending\n"));
      await stopped;
      await eventually("the follower ends with its container", () => follower.ended());
      const again = await eventually("it was started again", async () => {
        const now = (await livePods()).find(({ metadata }) => metadata.name === name);
        return now !== undefined && isReady(now) && containerOf(now).restartCount === 1 && now;
      });
      expect(containerOf(again).lastState.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
      expect(await cluster.kubectl("logs", name, "--previous")).toBe("v1 listening on 8080\ngot SIGTERM, ending\n");
      // Deletes the pod, because later tests count restarts.
      await cluster.kubectl("delete", "pod", name, "--timeout=30s");
      await allAnswer("v1", 4);
    });

    it("scales up to six while an agent is killed three times, and no container is started twice or lost [node-agent 117]", async () => {
      const before = await allAnswer("v1", 4);
      const [victim] = nodes;
      if (victim === undefined) throw new Error("no node");
      await cluster.kubectl("scale", "deployment/web", "--replicas=6");
      await eventually("a new pod was given to the node", async () =>
        (await livePods()).some(
          ({ metadata, spec }) => spec.nodeName === victim.name && !before.some((old) => old.metadata.uid === metadata.uid),
        ),
      );
      for (const lifeMs of KILLED_AFTER_MS) {
        await sleep(lifeMs);
        await victim.kill();
        await victim.start();
      }
      await cluster.rolledOut("default", "web", ROLLOUT_SECONDS_MAX);
      const after = await allAnswer("v1", 6);
      await startedOnce(after);
      for (const old of before) {
        const now = after.find(({ metadata }) => metadata.uid === old.metadata.uid);
        // Same container, and same conditions with the same times: the pod was never marked unready.
        expect(now?.status.containerStatuses).toEqual(old.status.containerStatuses);
        expect(now?.status.conditions).toEqual(old.status.conditions);
      }
    });

    it("a Deployment of four is rolled to a second image", async () => {
      const from = performance.now();
      await cluster.kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
      await cluster.rolledOut("default", "web", ROLLOUT_SECONDS_MAX);
      measured(`six real pods rolled to a second image in ${((performance.now() - from) / 1000).toFixed(1)} s`);
      await startedOnce(await allAnswer("v2", 6));
    });

    it("scales down to two pods, which keep running unchanged", async () => {
      const before = await allAnswer("v2", 6);
      await cluster.kubectl("scale", "deployment/web", "--replicas=2");
      await eventually("four pods are gone", async () => (await cluster.list<PodView>(PODS)).length === 2, 60_000);
      const after = await allAnswer("v2", 2);
      for (const pod of after) expect(before.find(({ metadata }) => metadata.uid === pod.metadata.uid)?.status).toEqual(pod.status);
    });

    it("a pod ends although its agent is killed during the grace period [node-agent 120]", async () => {
      await cluster.apply(podOf("stubborn", { terminationGracePeriodSeconds: 20, containers: [server({ args: ["stubborn"] })] }));
      const pod = await podReady(cluster, "stubborn");
      const node = nodeOf(pod);
      await cluster.kubectl("delete", "pod", "stubborn", "--wait=false");
      const sawSignal = async (): Promise<boolean> => (await cluster.kubectl("logs", "stubborn")).includes("got SIGTERM, staying\n");
      await eventually("the container received SIGTERM", sawSignal);
      await node.kill();
      expect((await node.containers(pod.metadata.uid)).map(({ state }) => state)).toEqual(["CONTAINER_RUNNING"]);
      await node.start();
      await podGone(cluster, "stubborn");
      expect(
        (await node.containers(pod.metadata.uid)).filter(({ metadata, state }) => metadata.attempt > 0 || state !== "CONTAINER_EXITED"),
      ).toEqual([]);
      await startedOnce(await allAnswer("v2", 2));
    });

    it("a deleted Deployment leaves nothing on its nodes", async () => {
      const groups = await Promise.all(nodes.map(async (node) => (await node.leftovers()).cgroups));
      expect(groups.flat()).not.toEqual([]);
      await cluster.kubectl("delete", "deployment", "web", "--timeout=60s");
      await eventually("no pod is left", async () => (await cluster.list(PODS)).length === 0, 60_000);
      for (const node of nodes) {
        expect((await node.containers()).filter(({ state }) => state === "CONTAINER_RUNNING")).toEqual([]);
        expect(await node.cri.listPodSandbox({ state: "SANDBOX_READY" })).toEqual([]);
        expect((await node.leftovers()).directories).toEqual([]);
      }
      const from = performance.now();
      for (const node of nodes)
        await eventually(
          `nothing of any pod is left on ${node.name}`,
          async () => {
            const left = {
              containers: (await node.containers()).length,
              sandboxes: (await node.cri.listPodSandbox()).length,
              ...(await node.leftovers()),
            };
            expect(left).toEqual({ containers: 0, sandboxes: 0, directories: [], logs: [], links: [], cgroups: [] });
            return true;
          },
          COLLECTED_MS_MAX,
        );
      measured(
        `dead containers, sandboxes, logs and control groups were collected after ${((performance.now() - from) / 1000).toFixed(0)} s`,
      );
    });

    it("no node sends a request that the API server forbids", async () => {
      expect(await refusedForGood(cluster)).toEqual([]);
    });
  });

  /** Starts `kubectl logs -f` as a process. */
  async function follow(pod: string): Promise<{ readonly output: () => string; readonly ended: () => boolean }> {
    const binaries = await controlPlaneBinaries();
    if ("missing" in binaries) throw new Error(binaries.missing);
    const child = spawn(binaries.kubectl, ["--kubeconfig", cluster.plane.adminKubeconfig, "logs", "-f", pod], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await eventually("the log so far", () => output.includes("v1 listening on 8080\n"));
    return { output: () => output, ended: () => child.exitCode !== null };
  }
});

function fail(): never {
  throw new Error("no pod");
}
