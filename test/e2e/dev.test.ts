/** `deltaloop dev` as a user runs it, on a real control plane. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { deltaloop, eventually, isRunning, killHard, measured, ROOT, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { AuditEntry, Cluster, Running } from "../support/e2e.ts";
import { liveTimeline } from "../support/live-page.ts";

const END_MS_MAX = 5_000;
const PROCESSES = ["functions", "queue", "redis", "watcher"];
const labels = { app: "web" };
const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
const web = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: "default" },
  spec: { replicas: 2, selector: { matchLabels: labels }, template },
};

describe("exits with code 2 and a line for each configuration error", () => {
  let directory: string;
  const kubeconfig = (): string => join(directory, "kubeconfig");
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "deltaloop-e2e-"));
    const content = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "nowhere", cluster: { server: "https://127.0.0.1:9" } }],
      users: [{ name: "nobody", user: {} }],
      contexts: [{ name: "here", context: { cluster: "nowhere", user: "nobody" } }],
      "current-context": "here",
    };
    await writeFile(kubeconfig(), JSON.stringify(content));
  });
  afterAll(() => rm(directory, { recursive: true }));

  async function refused(args: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<readonly string[]> {
    const command = deltaloop(args, environment);
    expect((await command.exited).code, command.output()).toBe(2);
    expect(command.output()).not.toMatch(/^\s+at /m);
    return command.output().trim().split("\n");
  }

  it("reports a kubeconfig that does not exist", async () => {
    expect(await refused(["dev", "--kubeconfig", "/no/such/file"])).toEqual([
      "deltaloop: kubeconfig /no/such/file cannot be read: ENOENT: no such file or directory, open '/no/such/file'",
    ]);
  });

  it("reports a context that does not exist", async () => {
    expect(await refused(["dev", "--kubeconfig", kubeconfig(), "--context", "there"])).toEqual([
      `deltaloop: no context "there" in ${kubeconfig()}; it has: here`,
    ]);
  });

  it("reports an unreachable server at once with a startup timeout of 0s", async () => {
    const lines = await refused(["dev", "--kubeconfig", kubeconfig(), "--startup-timeout", "0s"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^deltaloop: https:\/\/127\.0\.0\.1:9 cannot be used: .*ECONNREFUSED.*--startup-timeout$/);
  });

  it("retries an unreachable server until the startup timeout, and then reports it", async () => {
    const lines = await refused(["dev", "--kubeconfig", kubeconfig(), "--startup-timeout", "10s"]);
    expect(lines[0]).toMatch(/^deltaloop: warn: waiting for the API server https:\/\/127\.0\.0\.1:9 call=.*ECONNREFUSED/);
    expect(lines.at(-1)).toMatch(/^deltaloop: https:\/\/127\.0\.0\.1:9 cannot be used: GET \S+ fails for \d+s: /);
  });

  it("reports an invalid number", async () => {
    expect(await refused(["dev", "--kubeconfig", kubeconfig(), "--nodes", "many"])).toEqual([
      'deltaloop: --nodes takes a whole number from 1 to 1000, not "many"',
    ]);
  });

  it("reports two watchers without a Lease", async () => {
    expect(await refused(["dev", "--kubeconfig", kubeconfig(), "--watchers", "2"])).toEqual([
      "deltaloop: --watchers needs --act: without a Lease, two watchers would take over from each other endlessly",
    ]);
  });

  it("reports each variable that a watcher lacks", async () => {
    const variables = [
      "DEPLOYMENT",
      "CLUSTER",
      "DIGEST_KEY",
      "MAC_KEY",
      "REDIS_URL",
      "KUBE_SERVER",
      "DELTAS_URL",
      "DOORBELLS_DEPLOYMENT_URL",
      "DOORBELLS_REPLICASET_URL",
      "DOORBELLS_REPLICATIONCONTROLLER_URL",
    ];
    expect(await refused(["watch"])).toEqual(variables.map((name) => `deltaloop: DELTALOOP_${name}: is missing`));
  });

  it("reports each invalid value, and quotes none", async () => {
    const environment = {
      DELTALOOP_DEPLOYMENT: "Prod!",
      DELTALOOP_CLUSTER: "mine",
      DELTALOOP_DIGEST_KEY: "too-short",
      DELTALOOP_TYPO: "1",
    };
    const lines = await refused(["watch"], environment);
    for (const name of Object.keys(environment)) expect(lines.filter((line) => line.includes(`${name}:`))).toHaveLength(1);
    for (const value of ["Prod!", "mine", "too-short"]) expect(lines.join("\n")).not.toContain(value);
  });
});

await whereRealPartsAre("dev on a real control plane", () => {
  describe("dev on a real control plane", () => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await startCluster();
    });
    afterAll(async () => {
      await cluster?.stop();
    });

    it("prints decisions and sends nothing in shadow mode, the default, and SIGTERM ends it within 5 s with nothing left behind", async () => {
      const dev = deltaloop(["dev", "--open", "--kubeconfig", cluster.rolesKubeconfig]);
      try {
        expect(await dev.line("ready:")).toContain("shadow");
        expect(await dev.line("deltaloop-sync-deployment needs:")).toContain("list replicasets.apps");
        await cluster.apply(web);
        await dev.line("create ReplicaSet web-");
        await sleep(1_500); // time in which a write would be sent
        expect(await ownWrites(cluster)).toEqual([]);
        expect(await cluster.list("/apis/apps/v1/namespaces/default/replicasets")).toEqual([]);
        expect(await liveTimeline(dev)).toContain('"kind":"sync"');
      } catch (error) {
        await dev.stop();
        throw error;
      }
      await expectGone(dev, "SIGTERM");
      expect((await dev.exited).code).toBe(0);
    });

    it("dev leaves nothing behind when dev is killed with SIGKILL", async () => {
      const dev = deltaloop(["dev", "--kubeconfig", cluster.rolesKubeconfig]);
      await dev.line("ready:");
      const pids = dev.pids();
      killHard(dev.pid);
      const from = performance.now();
      await eventually(`${JSON.stringify(pids)} are gone`, () => Object.values(pids).every((pid) => !isRunning(pid)), END_MS_MAX);
      measured(`dev killed −9: its processes gone after ${((performance.now() - from) / 1000).toFixed(1)} s`);
    });

    it("dev restarts its queue process after each exit, even before the queue was ready", async () => {
      const dev = deltaloop(["dev", "--kubeconfig", cluster.rolesKubeconfig]);
      try {
        await dev.line("ready:");
        const first = dev.pids()["queue"];
        killHard(first);
        await eventually("the queue is started again", () => dev.pids()["queue"] !== first);
        const second = dev.pids()["queue"];
        killHard(second); // it is still starting
        await eventually("and once more", () => dev.pids()["queue"] !== second);
        await cluster.apply({ ...web, metadata: { ...web.metadata, name: "web-after" } });
        await dev.line("create ReplicaSet web-after-");
      } finally {
        await dev.stop();
      }
      expect((await dev.exited).code).toBe(0);
    });

    it("stops acting, logs why and exits with code 3 when upstream's controller manager writes a status", async () => {
      const dev = await startDev(cluster);
      try {
        await cluster.apply(web);
        await cluster.rolledOut("default", "web");
        for (const replicas of [1, 2]) {
          await makeUpStatusWrites(cluster);
          await cluster.kubectl("scale", "deployment/web", `--replicas=${replicas}`);
          await cluster.rolledOut("default", "web");
        }
        await makeUpStatusWrites(cluster);
        await sleep(1_500);
        expect(dev.output()).not.toContain("stopped acting");
        expect(isRunning(dev.pid)).toBe(true);
        const goesOn = new AbortController();
        await Promise.all([upstreamWritesStatus(cluster, goesOn.signal), dev.line("stopped acting").finally(() => goesOn.abort())]);
        const { code } = await dev.exited;
        expect(code).toBe(3);
        expect(dev.output()).toMatch(
          /kube-controller-manager wrote the status of Deployment default\/web at .*--controllers=\*,-deployment-controller/,
        );
      } catch (error) {
        await dev.stop();
        throw error;
      }
      await expectGone(dev, "itself");
      const writes = (await ownWrites(cluster)).length;
      await cluster.kubectl("scale", "deployment/web", "--replicas=3");
      await sleep(1_500);
      expect((await ownWrites(cluster)).length).toBe(writes);
    });

    it("ignores writes that upstream's controller manager made before the start", async () => {
      const dev = await startDev(cluster);
      try {
        await cluster.rolledOut("default", "web");
        await sleep(1_000);
        expect(isRunning(dev.pid)).toBe(true);
        expect(dev.output()).not.toContain("stopped acting");
      } catch (error) {
        await dev.stop();
        throw error;
      }
      await expectGone(dev, "SIGTERM");
    });

    it("reports each permission that a role lacks", async () => {
      await cluster.kubectl("delete", "clusterrolebinding", "deltaloop-sync-deployment");
      await cluster.kubectl("delete", "rolebinding", "deltaloop-watcher", "-n", "deltaloop");
      const lacking = async (...more: readonly string[]): Promise<readonly string[]> => {
        const dev = deltaloop(["dev", "--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", "deltaloop", ...more]);
        await dev.line("grants each role its permissions");
        await dev.stop();
        return dev
          .output()
          .split("\n")
          .flatMap((line) => /missing permission: "?([^"]+)"? role=deltaloop-(.*)/.exec(line)?.slice(1, 3).join(" | ") ?? []);
      };
      const reads = ["list pods", "get pods", "get deployments.apps", "get replicasets.apps", "list replicasets.apps"].map(
        (what) => `${what} | sync-deployment`,
      );
      expect((await lacking()).toSorted()).toEqual(reads.toSorted());
      const leases = ["get", "create", "update"].map((verb) => `${verb} leases.coordination.k8s.io in namespace deltaloop | watcher`);
      const canary = "patch replicasets.apps/status in namespace deltaloop | watcher";
      const acting = await lacking("--act");
      expect(acting).toEqual(
        expect.arrayContaining([
          ...reads,
          ...leases,
          canary,
          "patch deployments.apps/status | sync-deployment",
          "create replicasets.apps | sync-deployment",
        ]),
      );
      expect(acting.filter((line) => !/sync-deployment|leases/.test(line))).toEqual([canary]);
      await cluster.kubectl("apply", "-f", join(ROOT, "infra/manifests/rbac.yaml"));
    });
  });
});

/** The writes of our components, without access reviews, which are POSTs that change nothing. */
async function ownWrites(cluster: Cluster): Promise<readonly AuditEntry[]> {
  return (await cluster.audit()).filter(
    ({ userAgent, verb, objectRef }) =>
      userAgent?.startsWith("deltaloop/") === true &&
      !["get", "list", "watch"].includes(verb) &&
      objectRef?.resource !== "selfsubjectaccessreviews",
  );
}

/** Forges status writes, as every user can who may change a Deployment: the API server keeps managedFields as sent. */
async function makeUpStatusWrites(cluster: Cluster): Promise<void> {
  const path = "/apis/apps/v1/namespaces/default/deployments/web";
  const entry = { operation: "Update", apiVersion: "apps/v1", subresource: "status", fieldsType: "FieldsV1" };
  const fields = { "f:status": { "f:replicas": {}, "f:updatedReplicas": {}, "f:observedGeneration": {} } };
  const managedFields = [
    { ...entry, manager: "kube-controller-manager", time: new Date().toISOString().replace(/\.\d+/, ""), fieldsV1: fields },
    { ...entry, manager: "k3s", time: "2099-01-01T00:00:00Z", fieldsV1: fields },
  ];
  await cluster.client.request("PATCH", path, { metadata: { managedFields } }, "application/merge-patch+json");
  const { metadata } = await cluster.client.request("GET", path);
  expect(JSON.stringify(metadata)).toContain("2099-01-01T00:00:00Z");
}

/** Writes the status repeatedly, as a controller does, because a write in the first second of our leadership does not count as later. */
async function upstreamWritesStatus(cluster: Cluster, signal: AbortSignal): Promise<void> {
  const path = "/apis/apps/v1/namespaces/default/deployments/web/status?fieldManager=kube-controller-manager";
  for (let nth = 1; !signal.aborted; nth++) {
    await cluster.client.request("PATCH", path, { status: { unavailableReplicas: nth } }, "application/merge-patch+json");
    await sleep(1_000);
  }
}

/** Checks that the four processes were running, and that neither they nor `dev` are running 5 s after the signal. */
async function expectGone(dev: Running, how: "SIGTERM" | "itself"): Promise<void> {
  const pids = dev.pids();
  expect(Object.keys(pids).toSorted()).toEqual(PROCESSES);
  const from = performance.now();
  // Kills a `dev` that does not exit by itself, so that it does not affect the next test.
  if (how === "itself") await Promise.race([dev.exited, sleep(END_MS_MAX)]);
  const hasEnded = how === "SIGTERM" || !isRunning(dev.pid);
  await dev.stop();
  const tookMs = performance.now() - from;
  if (how === "SIGTERM") measured(`dev ended ${(tookMs / 1000).toFixed(1)} s after SIGTERM`);
  expect(hasEnded).toBe(true);
  expect(tookMs).toBeLessThanOrEqual(END_MS_MAX);
  expect(Object.entries(pids).filter(([, pid]) => isRunning(pid))).toEqual([]);
}
