/** The CRI adapter on real containerd processes, one per node (test/containerd). */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { createCri } from "../../shared/node-agent/cri/cri.ts";
import type { CriAdapter } from "../../shared/node-agent/cri/cri.ts";
import { isNotFound, isUnavailable } from "../../shared/node-agent/ports/cri-error.ts";
import type { ContainerConfig, PodSandboxConfig } from "../../shared/node-agent/ports/cri-types.ts";
import { criConformance } from "../conformance/cri.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import type { NodeIdentity } from "../containerd/identity.ts";
import { IMAGES } from "../containerd/images.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { eventually } from "../support/e2e.ts";
import { realRuntime } from "../harness/node-processes/runtime-under-test.ts";

const ABSENT = "127.0.0.1:1/none:1";
const MEMORY_LIMIT = 64 * 1024 * 1024;

const missing = ensureContainerd();
if (missing !== undefined) {
  process.stderr.write(`!!!!  containerd cannot run: ${missing}\n`);
  it.skip(`cri on a real containerd: ${missing}`);
} else {
  suites();
}

function suites(): void {
  criConformance("a real containerd", async () => {
    const node = await startContainerd();
    const cri = createCri(node.endpoint);
    const logDirectory = logsOf(node, "suite");
    return {
      ...realRuntime({ cgroupParent: node.cgroupParent, logDirectory }),
      cri,
      absentImage: ABSENT,
      async restart() {
        await node.kill();
        expect(await cri.status().catch(isUnavailable)).toBe(true);
        await node.restart();
        await eventually("the connection is back", () => cri.status().then(() => true));
      },
      async close() {
        cri.close();
        await node.stop();
      },
    };
  });

  describe("pods on a real containerd", () => {
    let node: ContainerdNode;
    let cri: CriAdapter;
    beforeAll(async () => {
      node = await startContainerd();
      cri = createCri(node.endpoint);
    });
    afterEach(async () => {
      for (const { id } of await cri.listPodSandbox()) await cri.removePodSandbox(id);
    });
    afterAll(async () => {
      cri.close();
      await node.stop();
    });

    it("pods serve on their own addresses, within their limits", async () => {
      const web = await runPod(cri, node, "web", { image: { image: IMAGES.serverV1 } });
      const other = await runPod(cri, node, "other", { image: { image: IMAGES.serverV2 }, envs: [{ key: "PORT", value: "8081" }] });
      expect(await answer(web.ip)).toBe("v1 web\n");
      expect(await answer(other.ip, 8081)).toBe("v2 other\n");
      expect(web.ip.startsWith(node.podCidr.slice(0, node.podCidr.lastIndexOf(".")))).toBe(true);
      const limits = ["memory/", ""].flatMap((hierarchy) =>
        ["memory.limit_in_bytes", "memory.max"].map((file) => `/sys/fs/cgroup/${hierarchy}${node.cgroup}/web/${web.id}/${file}`),
      );
      expect(limits.filter(existsSync).map((file) => readFileSync(file, "utf8").trim())).toEqual([String(MEMORY_LIMIT)]);
      const stats = await cri.containerStats(web.id);
      expect(stats.memory?.workingSetBytes).toBeGreaterThan(0);
      expect(stats.memory?.workingSetBytes).toBeLessThan(MEMORY_LIMIT);
    });

    it("pods write to the new log file after a rotation", async () => {
      const command = ["sh", "-c", "while true; do echo tick; sleep 0.2; done"];
      const { id } = await runPod(cri, node, "ticking", { image: { image: IMAGES.busybox }, command });
      const { logPath } = await cri.containerStatus(id);
      await eventually("a first line", () => readFileSync(logPath, "utf8").includes(" stdout F tick\n"));
      renameSync(logPath, `${logPath}.1`);
      await cri.reopenContainerLog(id);
      await eventually("a line in the new file", () => existsSync(logPath) && readFileSync(logPath, "utf8").includes(" stdout F tick\n"));
      expect(await cri.execSync(id, ["sh", "-c", "echo out; echo err >&2; exit 7"], 10)).toEqual({
        stdout: "out\n",
        stderr: "err\n",
        exitCode: 7,
      });
    });

    it("pods are not affected by another pod whose image does not exist", async () => {
      const web = await runPod(cri, node, "web", { image: { image: IMAGES.serverV1 } });
      await expect(cri.pullImage({ image: ABSENT })).rejects.toThrow("connection refused");
      const failed = runPod(cri, node, "none", { image: { image: ABSENT } });
      expect(await failed.catch(isNotFound)).toBe(true);
      expect(await answer(web.ip)).toBe("v1 web\n");
      expect((await cri.listContainers()).map(({ id }) => id)).toEqual([web.id]);
    });

    it("pods keep serving while containerd is killed, and are listed when it is back", async () => {
      const web = await runPod(cri, node, "web", { image: { image: IMAGES.serverV1 } });
      const before = node.pid;
      await node.kill();
      expect(await cri.listContainers().catch(isUnavailable)).toBe(true);
      expect(await answer(web.ip)).toBe("v1 web\n");
      await node.restart();
      expect(node.pid).not.toBe(before);
      const containers = await eventually("the connection is back", () => cri.listContainers());
      expect(containers.map(({ id, state }) => [id, state])).toEqual([[web.id, "CONTAINER_RUNNING"]]);
      expect((await cri.podSandboxStatus(web.sandbox)).network?.ip).toBe(web.ip);
      const next = await runPod(cri, node, "next", { image: { image: IMAGES.serverV1 } });
      expect(await answer(next.ip)).toBe("v1 next\n");
    });
  });

  describe("a node's containerd", () => {
    it("a node's containerd shares nothing with another one, and leaves nothing behind when it stops", async () => {
      const [a, b] = await Promise.all([startContainerd(), startContainerd()]);
      try {
        const [criA, criB] = [createCri(a.endpoint), createCri(b.endpoint)];
        const [podA, podB] = await Promise.all([
          runPod(criA, a, "web", { image: { image: IMAGES.serverV1 } }),
          runPod(criB, b, "web", { image: { image: IMAGES.serverV2 } }),
        ]);
        expect([await answer(podA.ip), await answer(podB.ip)]).toEqual(["v1 web\n", "v2 web\n"]);
        expect(a.podCidr).not.toBe(b.podCidr);
        expect(await criB.listContainers()).toHaveLength(1);
        expect(tracesOf(a)).not.toEqual([]);
        criA.close();
        await a.stop();
        expect(tracesOf(a)).toEqual([]);
        expect(await answer(podB.ip)).toBe("v2 web\n");
        criB.close();
      } finally {
        await a.stop();
        await b.stop();
      }
      expect(tracesOf(b)).toEqual([]);
    });

    it("a node's containerd leaves nothing behind if its parent process is killed", async () => {
      const { identity, kill } = await startElsewhere();
      expect(tracesOf(identity)).not.toEqual([]);
      kill();
      await eventually("nothing is left", () => tracesOf(identity).length === 0);
    });
  });
}

async function runPod(cri: CriAdapter, node: ContainerdNode, name: string, container: Omit<ContainerConfig, "metadata">) {
  const config: PodSandboxConfig = {
    metadata: { name, namespace: "e2e", uid: name, attempt: 0 },
    hostname: name,
    logDirectory: logsOf(node, name),
    linux: {
      cgroupParent: `${node.cgroupParent}/${name}`,
      securityContext: { namespaceOptions: { network: "POD", pid: "CONTAINER", ipc: "POD" } },
    },
  };
  const sandbox = await cri.runPodSandbox(config);
  const resources = { memoryLimitInBytes: MEMORY_LIMIT };
  const id = await cri.createContainer(
    sandbox,
    { metadata: { name: "main", attempt: 0 }, logPath: "main-0.log", linux: { resources }, ...container },
    config,
  );
  await cri.startContainer(id);
  return { sandbox, id, ip: (await cri.podSandboxStatus(sandbox)).network?.ip ?? "" };
}

function logsOf({ directory }: ContainerdNode, pod: string): string {
  const path = join(directory, "pods", pod);
  mkdirSync(path, { recursive: true });
  return path;
}

/** Returns the pod's HTTP response, once the pod listens. */
async function answer(ip: string, port = 8080): Promise<string> {
  return await eventually(`${ip}:${port} answers`, async () =>
    (await fetch(`http://${ip}:${port}/`, { signal: AbortSignal.timeout(5_000) })).text(),
  );
}

/** Starts a node with a pod in another process, which the test then kills. */
async function startElsewhere(): Promise<{ readonly identity: NodeIdentity; kill(): void }> {
  const module = (path: string): string => JSON.stringify(join(import.meta.dirname, "..", "..", path));
  const script = `
    const { startContainerd } = await import(${module("test/containerd/containerd.ts")});
    const { createCri } = await import(${module("shared/node-agent/cri/cri.ts")});
    const node = await startContainerd();
    const { directory, cgroup, cgroupParent, bridgeAddress, endpoint } = node;
    const metadata = { name: "p", namespace: "n", uid: "u", attempt: 0 };
    await createCri(endpoint).runPodSandbox({ metadata, hostname: "p", linux: { cgroupParent } });
    console.log(JSON.stringify({ directory, cgroup, bridgeAddress }));
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise<never>((_, reject) =>
    child.once("exit", (code) => reject(new Error(`exit code ${code} before it was ready`))),
  );
  const line = new Promise<string>((resolve) => child.stdout.setEncoding("utf8").once("data", resolve));
  const identity = JSON.parse(await Promise.race([line, exited])) as NodeIdentity; // written by the script above
  exited.catch(() => undefined); // the test kills the process
  return { identity, kill: () => void child.kill("SIGKILL") };
}

/** Returns everything on this host that belongs to a node. */
function tracesOf({ directory, cgroup, bridgeAddress }: NodeIdentity): readonly string[] {
  const lines = (text: string): readonly string[] => text.split("\n").filter((line) => line.includes(directory));
  return [
    ...(existsSync(directory) ? [directory] : []),
    // Lists all processes: the command lines of the cleanup process and of this process do not contain the directory.
    ...lines(execFileSync("ps", ["-eww", "-o", "pid=,args="], { encoding: "utf8" })),
    ...lines(readFileSync("/proc/self/mounts", "utf8")),
    ...execFileSync("ip", ["-o", "link"], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes(bridgeAddress)),
    ...["", ...readdirSync("/sys/fs/cgroup")].map((hierarchy) => join("/sys/fs/cgroup", hierarchy, cgroup)).filter(existsSync),
    ...(existsSync("/var/lib/cni/results") ? readdirSync("/var/lib/cni/results").filter((file) => file.startsWith(cgroup)) : []),
  ];
}
