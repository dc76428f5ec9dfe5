/**
 * The deployed watcher: an image built from Debian's real packages, the Kustomize base applied with `kubectl apply -k` to a real API
 * server, its pods in real containers on one of our nodes, and functions. The tests are one sequence: each continues where the previous one
 * ended.
 */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { currentPins, debianPackages, PinsMovedError, readPins, whyNoDebian } from "../../infra/image/debian.ts";
import type { DebianPins } from "../../infra/image/debian.ts";
import { IMAGE_NAME, watcherImage } from "../../infra/image/image.ts";
import { HOST_ARCHITECTURE, platformsArchive } from "../../infra/image/oci-archive.ts";
import type { OciImage } from "../../infra/image/oci-archive.ts";
import { COMMAND_PATH, NODE_PATH } from "../../infra/image/rootfs.ts";
import { readClusterIdentity } from "../../shared/kube/client/cluster-id.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { environmentOf } from "../../shared/controllers/lambda/configuration.ts";
import { queueUrls } from "../../shared/local/queues.ts";
import type { LocalQueues } from "../../shared/local/queues.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, ROOT, startCluster } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { nodesReady, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import { isReady, server } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { startTcpFront } from "../support/tcp-front.ts";
import type { TcpFront } from "../support/tcp-front.ts";

const PODS = `/api/v1/namespaces/${OWN_NAMESPACE}/pods`;
const WEB = "/api/v1/namespaces/default/pods";
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases/deltaloop-watcher-image-test`;
/** Limit in ms, below the 15 s after which a Lease expires that was not released. */
const HAND_OVER_MS_MAX = 12_000;
const ROLLOUT_SECONDS_MAX = 90;

interface Lease {
  readonly spec: { readonly holderIdentity?: string };
}

const title = "the watcher's image";
const missing = await whyNoDebian();
if (missing !== undefined || HOST_ARCHITECTURE === undefined) it.skip(`${title}: ${missing ?? `there is none for ${process.arch}`}`);
else await whereNodesCanRun(title, () => suite(HOST_ARCHITECTURE ?? "amd64"));

function suite(architecture: "amd64" | "arm64"): void {
  let cluster: Cluster;
  let node: NodeAgent;
  let redis: RedisServer;
  let queue: Running;
  let host: Running;
  let pins: DebianPins;
  let image: OciImage;
  let folder: string;
  /** The address of the bridge, through which pods reach this host, with the API server's port. */
  let gateway: string;
  let kubePort: string;
  const fronts: TcpFront[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-watcher-image-"));
    queue = deltaloop(["queue", "--prefix", "image-test", "--invocations", join(folder, "invocations")]);
    pins = await pinsToTest(architecture);
    [cluster, redis, image] = await Promise.all([startCluster({ machines: "scheduler" }), startRedis(), make()]);
    [node = await Promise.reject(new Error("expected exactly one node"))] = await startNodes(cluster, ["node-a"]);
    await node.containerd.importArchive(platformsArchive(IMAGE_NAME, [image], {}).archive, [IMAGE_NAME]);
    await nodesReady(cluster, node);
  });

  afterAll(async () => {
    await host?.stop();
    await node?.stop();
    await Promise.all(fronts.map((front) => front.stop()));
    await queue?.stop();
    await cluster?.stop();
    await redis?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const make = async (): Promise<OciImage> => (await watcherImage({ root: ROOT, architecture, pins, compress: false })).image;
  const watchers = async (): Promise<readonly PodView[]> =>
    (await cluster.list<PodView>(PODS)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const bothReady = async (): Promise<readonly PodView[]> =>
    await eventually(
      "both watchers are ready",
      async () => {
        const pods = await watchers();
        if (pods.length === 2 && pods.every(isReady)) return pods;
        throw new Error(JSON.stringify(pods.map(({ status }) => status)));
      },
      60_000,
    );
  const holder = async (): Promise<string> => (await cluster.get<Lease>(LEASE))?.spec.holderIdentity ?? "";
  /** Returns the pod that holds the Lease: the holder identity starts with the pod's host name and a dash. */
  const leader = async (): Promise<string> =>
    await eventually("somebody leads", async () => /^(deltaloop-watcher-\d)-/.exec(await holder())?.[1]);
  const inside = async (pod: string, ...command: readonly string[]): Promise<string> =>
    await cluster.kubectl("exec", "-n", OWN_NAMESPACE, pod, "--", NODE_PATH, ...command);
  const told = async (pod: PodView | undefined, path: string): Promise<string> =>
    await (await fetch(`http://${pod?.status.podIP}:8080/${path}`, { signal: AbortSignal.timeout(5_000) })).text();

  it("is reproducible byte for byte", async () => {
    expect((await make()).manifest).toEqual(image.manifest);
  });

  it("runs two replicas from the Kustomize base, in a namespace of Pod Security level restricted", async () => {
    const from = performance.now();
    await applyBase();
    const pods = await bothReady();
    measured(`both watchers ready ${((performance.now() - from) / 1000).toFixed(1)} s after kubectl apply -k`);
    expect(pods.map(({ metadata }) => metadata.name).toSorted()).toEqual(["deltaloop-watcher-0", "deltaloop-watcher-1"]);
    await expect(cluster.kubectl("run", "loose", "-n", OWN_NAMESPACE, "--image=x", "--dry-run=server")).rejects.toThrow(
      'violates PodSecurity "restricted:latest"',
    );
    const budget = ["get", "poddisruptionbudget", "deltaloop-watcher", "-n", OWN_NAMESPACE, "-o", "jsonpath={.status.disruptionsAllowed}"];
    await eventually("the budget spares one of them", async () => (await cluster.kubectl(...budget)) === "1");
  });

  it("probes report which replica is the leader, and that the cache is synced", async () => {
    const leading = await leader();
    for (const pod of await watchers()) {
      const leads = pod.metadata.name === leading;
      expect(await told(pod, "readyz?verbose")).toContain(
        `[+]leaderElection ok: ${leads ? "leading" : "not leading"}\n[+]redis ok\n[+]informer-sync ok: ${leads ? "3 gates open" : "not leading"}\n`,
      );
      expect(await told(pod, "livez")).toBe("ok");
      expect(await told(pod, "metrics")).toContain("deltaloop_");
    }
  });

  it("logs one JSON object per line", async () => {
    const lines = (await cluster.kubectl("logs", "-n", OWN_NAMESPACE, await leader())).trim().split("\n");
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines)
      expect(JSON.parse(line)).toMatchObject({ level: expect.any(String), message: expect.any(String), service: "deltaloop-watch" });
  });

  it("runs as an unprivileged user, without a capability, and with a read-only file system", async () => {
    const script = `
      const { readFileSync, writeFileSync } = require("node:fs");
      const refused = ["/x", "/tmp/x", "/usr/lib/deltaloop/x"].map((path) => { try { writeFileSync(path, ""); return "written"; } catch (error) { return error.code; } });
      const status = readFileSync("/proc/1/status", "utf8");
      const of = (name) => new RegExp("^" + name + ":\\\\s+(.*)$", "m").exec(status)[1].split("\\t")[0];
      console.log(JSON.stringify({ refused, uid: of("Uid"), gid: of("Gid"), capabilities: of("CapEff"), noNewPrivileges: of("NoNewPrivs"), seccomp: of("Seccomp"), user: require("node:os").userInfo().username }));`;
    expect(JSON.parse(await inside(await leader(), "-e", script))).toEqual({
      refused: ["EROFS", "ENOENT", "EROFS"],
      uid: "65532",
      gid: "65532",
      capabilities: "0000000000000000",
      noNewPrivileges: "1",
      seccomp: "2",
      user: "nonroot",
    });
  });

  it("includes the doctor, which finds API server, Redis, queues, Lease and cache healthy", async () => {
    const report = JSON.parse(await inside(await leader(), COMMAND_PATH, "doctor", "--json")) as {
      readonly findings: readonly { readonly check: string; readonly state: string; readonly seen: string }[];
    };
    expect(report.findings.filter(({ state }) => state === "failure")).toEqual([]);
    expect(report.findings.filter(({ state }) => state === "ok").length).toBeGreaterThan(20);
  });

  describe("a Deployment", () => {
    it("a Deployment is rolled out by functions that these watchers feed", async () => {
      const labels = { app: "web" };
      const template = { metadata: { labels }, spec: { terminationGracePeriodSeconds: 1, containers: [server()] } };
      await cluster.apply({
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "web" },
        spec: { replicas: 2, selector: { matchLabels: labels }, template },
      });
      await cluster.rolledOut("default", "web", ROLLOUT_SECONDS_MAX);
      expect((await cluster.list<PodView>(WEB)).filter(isReady)).toHaveLength(2);
    });

    // Another pod may take the Lease first: the second one, or the recreated one under the old name.
    it("scales up after the leading watcher was stopped and released its Lease", async () => {
      const [pod, before] = [await leader(), await holder()];
      const from = performance.now();
      await cluster.kubectl("delete", "pod", pod, "-n", OWN_NAMESPACE, "--wait=false");
      const another = async (): Promise<string> => {
        const now = await holder();
        if (["", before].includes(now)) throw new Error(`the Lease's holder is "${now}"`);
        return now;
      };
      await eventually(`a watcher other than ${before} leads`, another, HAND_OVER_MS_MAX);
      measured(`another watcher led ${((performance.now() - from) / 1000).toFixed(1)} s after kubectl delete pod`);
      await cluster.kubectl("scale", "deployment/web", "--replicas=3");
      await cluster.rolledOut("default", "web", ROLLOUT_SECONDS_MAX);
      await bothReady();
    });
  });

  it("captures from the Kustomize base, even after the container restarts, and capture fetch downloads the capture", async () => {
    await applyCapture();
    const fetched = join(folder, "fetched.jsonl");
    const fetch = async (): Promise<string> => {
      const command = deltaloop(["capture", "fetch", "--kubeconfig", cluster.plane.adminKubeconfig, "-o", fetched]);
      if ((await command.exited).code !== 0) throw new Error(command.output());
      const text = await readFile(fetched, "utf8");
      for (const resource of ["pods", "deployments", "nodes", "events", "horizontalpodautoscalers"])
        if (!text.includes(`"r":"${resource}","k":"listend"`)) throw new Error(`${resource} are not listed yet`);
      return text;
    };
    const before = await eventually("the capture is brought", fetch, 60_000);
    expect(before).not.toContain('"k":"denied"');
    const kill = ["exec", "-n", "deltaloop-capture", "deltaloop-capture-0", "--", NODE_PATH, "-e", "process.kill(1, 'SIGTERM')"];
    await cluster.kubectl(...kill);
    const after = async (): Promise<boolean> => (await fetch()).split("\n", 1)[0] !== before.split("\n", 1)[0];
    await eventually("the next run is brought", after, 60_000);
  });

  async function applyCapture(): Promise<void> {
    const base = join(folder, "manifests-capture");
    await cp(join(ROOT, "infra/manifests-capture"), base, { recursive: true });
    const kubeconfig = await readFile(join(base, "kubeconfig.yaml"), "utf8");
    await writeFile(join(base, "kubeconfig.yaml"), kubeconfig.replace("default.svc", `default.svc:${kubePort}`));
    const patch = `
patches:
  - patch: |-
      apiVersion: apps/v1
      kind: StatefulSet
      metadata: { name: deltaloop-capture, namespace: deltaloop-capture }
      spec:
        template:
          spec:
            hostAliases: [{ ip: ${gateway}, hostnames: [kubernetes.default.svc] }]
`;
    await writeFile(join(base, "kustomization.yaml"), (await readFile(join(base, "kustomization.yaml"), "utf8")) + patch);
    await cluster.kubectl("apply", "-k", base, "--validate=strict");
  }

  /** Applies the example overlay with this cluster's values, for pods that reach the host only through their bridge. */
  async function applyBase(): Promise<void> {
    gateway = node.containerd.podCidr.replace(/0\/24$/, "1");
    const front = async (url: string): Promise<string> => {
      const made = await startTcpFront(Number(new URL(url).port), gateway);
      fronts.push(made);
      return String(made.port);
    };
    // the output of cli/queue.ts
    const { endpoint, queues } = JSON.parse(await queue.line('{"endpoint"')) as { endpoint: string; queues: LocalQueues };
    const { cid } = await readClusterIdentity(
      createKubeHttp(await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "e2e" })),
    );
    const configuration = {
      deployment: "image-test",
      cluster: cid,
      mode: "act",
      digestKey: "digest-key-of-the-test",
      macKeys: ["mac-key-of-the-test"],
      redis: { url: redis.url, cluster: false },
      kube: { server: cluster.plane.url },
      queues: queueUrls(endpoint, queues),
      logLevel: "info",
      metrics: "none",
    } as const;
    const environment = environmentOf(configuration);
    host = deltaloop(["host", "--kubeconfig", cluster.rolesKubeconfig, "--invocations", join(folder, "invocations")], environment);
    await host.line("ready");

    const [redisPort, queuePort] = await Promise.all([redis.url, endpoint].map(front));
    kubePort = await front(cluster.plane.url);
    const {
      DELTALOOP_DIGEST_KEY: digestKey,
      DELTALOOP_MAC_KEY: macKey,
      DELTALOOP_REDIS_URL: _loopback,
      DELTALOOP_KUBE_SERVER: _its,
      DELTALOOP_SQS_ENDPOINT: _too,
      ...plain
    } = environment;
    const example = join(folder, "manifests-example");
    for (const name of ["manifests", "manifests-example"]) await cp(join(ROOT, "infra", name), join(folder, name), { recursive: true });
    await writeFile(
      join(example, "watcher.env"),
      envFile({ ...plain, DELTALOOP_SQS_ENDPOINT: `http://${gateway}:${queuePort}`, AWS_REGION: "eu-central-1" }),
    );
    await writeFile(
      join(example, "secret.env"),
      envFile({
        DELTALOOP_DIGEST_KEY: digestKey ?? "",
        DELTALOOP_MAC_KEY: macKey ?? "",
        DELTALOOP_REDIS_URL: `redis://${gateway}:${redisPort}`,
      }),
    );
    // There is no service network here, so the API server's name resolves to the bridge's address, with another port.
    const patch = `
patches:
  - patch: |-
      apiVersion: apps/v1
      kind: StatefulSet
      metadata: { name: deltaloop-watcher, namespace: ${OWN_NAMESPACE} }
      spec:
        template:
          spec:
            hostAliases: [{ ip: ${gateway}, hostnames: [kubernetes.default.svc] }]
            containers:
              - name: watcher
                env: [{ name: DELTALOOP_KUBE_SERVER, value: "https://kubernetes.default.svc:${kubePort}" }]
`;
    await writeFile(join(example, "kustomization.yaml"), (await readFile(join(example, "kustomization.yaml"), "utf8")) + patch);
    await cluster.kubectl("apply", "-k", example, "--validate=strict");
  }
}

function envFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
}

/** Returns the committed pins, or if Debian has newer packages, which a test cannot change, the current ones, and prints a note. */
async function pinsToTest(architecture: "amd64" | "arm64"): Promise<DebianPins> {
  const pins = await readPins();
  try {
    await debianPackages(architecture, pins);
    return pins;
  } catch (error) {
    if (!(error instanceof PinsMovedError)) throw error;
    process.stderr.write(`!!!!  ${error.message}; tested with what apt offers now (npm run image -- --update)\n`);
    return await currentPins(pins);
  }
}
