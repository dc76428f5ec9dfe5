/**
 * Would catch: a control plane of a version other than stated, upstream's workload controllers that run at the same time as ours, other
 * controllers that are missing, identities that differ from a real cluster's, and leftover processes or files.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { type ControlPlane, startControlPlane } from "../envtest/control-plane.ts";
import { KUBERNETES_MAJOR, KUBERNETES_MINOR, KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { isRunning } from "../support/e2e.ts";

/** Limit in ms for a start (4 s) during other test runs; missing binaries are built before any test's timeout starts. */
const START_TIMEOUT_MS = 120_000;
/** Time in ms without changes; upstream's controllers would act within 50 ms. */
const QUIET_MS = 2000;
const WAIT_MAX_MS = 20_000;

const binaries = await controlPlaneBinaries();
const absent = "missing" in binaries ? `cannot run: ${binaries.missing}` : undefined;
if (absent !== undefined) process.stderr.write(`test/e2e/control-plane.test.ts ${absent}\n`);

describe.skipIf(absent !== undefined)(`a control plane without workload controllers ${absent ?? ""}`, () => {
  let controlPlane: ControlPlane;
  let scratch: string;

  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), "deltaloop-control-plane-test-"));
    controlPlane = await startControlPlane({ controllers: "without-workloads", auditLog: join(scratch, "audit.log") });
  }, START_TIMEOUT_MS);

  afterAll(async () => {
    await controlPlane?.stop();
    await rm(scratch, { recursive: true, force: true });
  }, START_TIMEOUT_MS);

  it("client and server have the expected version", async () => {
    const { stdout } = await ok(controlPlane, ["version", "-o", "json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      clientVersion: { gitVersion: KUBERNETES_VERSION, major: KUBERNETES_MAJOR, minor: KUBERNETES_MINOR },
      serverVersion: { gitVersion: KUBERNETES_VERSION, major: KUBERNETES_MAJOR, minor: KUBERNETES_MINOR },
    });
  });

  it("the other controllers run: a new namespace is populated and deleted", async () => {
    await ok(controlPlane, ["create", "namespace", "furnished"]);
    await eventually(controlPlane, ["get", "configmap/kube-root-ca.crt", "serviceaccount/default", "-n", "furnished"]);
    await ok(controlPlane, ["delete", "namespace", "furnished", "--timeout=20s"]); // waits for the deletion
  });

  it("does not act on Deployments, ReplicaSets and ReplicationControllers, while a Job gets its pod", async () => {
    await ok(controlPlane, ["create", "namespace", "quiet"]);
    await eventually(controlPlane, ["get", "serviceaccount/default", "-n", "quiet"]);
    await ok(controlPlane, ["apply", "-n", "quiet", "-f", "-"], JSON.stringify(workloads()));

    // The Job is the positive control: a similar controller in the same process.
    await eventually(controlPlane, ["wait", "--for=create", "pod", "-l", "job-name=control", "-n", "quiet", "--timeout=15s"]);
    await sleep(QUIET_MS);

    expect(await names(controlPlane, "quiet", "replicasets")).toEqual(["replicaset.apps/bare"]);
    expect((await names(controlPlane, "quiet", "pods")).filter((name) => !name.startsWith("pod/control-"))).toEqual([]);
    for (const object of ["deployment/rolled", "replicaset/bare", "replicationcontroller/old"]) {
      const { stdout } = await ok(controlPlane, ["get", object, "-n", "quiet", "-o", "jsonpath={.status.observedGeneration}"]);
      expect(stdout, `${object} was observed by a controller`).toBe("");
    }
  });

  it("gives a node only the rights of that node", async () => {
    const kubeconfig = await controlPlane.kubeconfigFor({ user: "system:node:n1", groups: ["system:nodes"] });
    const node = (name: string): string => JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name } });
    expect(await controlPlane.kubectl(["create", "-f", "-"], { kubeconfig, input: node("n1") })).toMatchObject({ code: 0 });
    const other = await controlPlane.kubectl(["create", "-f", "-"], { kubeconfig, input: node("n2") });
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('node "n1" is not allowed to modify node "n2"') });
  });

  it("gives a service account its own name and no rights", async () => {
    await ok(controlPlane, ["create", "serviceaccount", "watcher", "-n", "default"]);
    const kubeconfig = await controlPlane.serviceAccountKubeconfig("default", "watcher");
    const { stdout } = await controlPlane.kubectl(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"], { kubeconfig });
    expect(stdout).toBe("system:serviceaccount:default:watcher");
    const { stderr } = await controlPlane.kubectl(["get", "pods"], { kubeconfig });
    expect(stderr).toContain('User "system:serviceaccount:default:watcher" cannot list resource "pods"');
    await expect(controlPlane.serviceAccountKubeconfig("default", "nobody")).rejects.toThrow("not found");
  });

  it(
    "keeps its data when the API server is restarted",
    async () => {
      await ok(controlPlane, ["create", "configmap", "kept", "-n", "default"]);
      const before = controlPlane.pids();
      await controlPlane.restartApiServer();
      await ok(controlPlane, ["get", "configmap", "kept", "-n", "default"]);
      const after = controlPlane.pids();
      expect(after["kube-apiserver"]).not.toBe(before["kube-apiserver"]);
      expect(after).toMatchObject({ etcd: before["etcd"], "kube-controller-manager": before["kube-controller-manager"] });
    },
    START_TIMEOUT_MS,
  );

  it("writes an audit log with the bodies of workload writes only", async () => {
    await ok(controlPlane, ["create", "deployment", "seen", "--image=registry.example/app:1", "-n", "default"]);
    await ok(controlPlane, ["create", "secret", "generic", "unseen", "--from-literal=key=aGlkZGVu", "-n", "default"]);
    // A request may be logged a moment after its response.
    const read = async (): Promise<string> => await readFile(join(scratch, "audit.log"), "utf8");
    await until(async () => (await read()).includes('"name":"unseen"'), "the audit log has the Secret's line");
    const lines = (await read()).split("\n");
    const secret = Buffer.from("aGlkZGVu").toString("base64"); // base64, as in a Secret's data
    expect(lines.filter((line) => line.includes("registry.example/app:1")).length).toBeGreaterThan(0);
    expect(lines.filter((line) => line.includes(secret) || line.includes("aGlkZGVu"))).toEqual([]);
  });

  it("leaves no process and no file when it is stopped", async () => {
    const pids = Object.values(controlPlane.pids());
    await controlPlane.stop();
    expect(pids.filter(isRunning)).toEqual([]);
    expect(existsSync(dirname(dirname(controlPlane.adminKubeconfig)))).toBe(false);
  });
});

describe.skipIf(absent !== undefined)(`the control plane's command ${absent ?? ""}`, () => {
  it(
    "runs upstream's workload controllers with --upstream, and leaves no process behind when it is killed",
    async () => {
      const cli = await startCli(["--upstream"]);
      try {
        // Uses only kubeconfig and kubectl, because a user needs nothing else.
        const kubectl = async (...args: string[]): Promise<number | null> => await exitCode(cli.kubectl, args, cli.kubeconfig);
        expect(await kubectl("create", "deployment", "rolled", "--image=registry.example/app:1")).toBe(0);
        expect(await kubectl("wait", "--for=create", "replicaset", "-l", "app=rolled", "--timeout=20s")).toBe(0);
        expect(await kubectl("wait", "--for=create", "pod", "-l", "app=rolled", "--timeout=20s")).toBe(0);
      } finally {
        cli.kill("SIGKILL");
      }
      await until(() => !cli.pids.some(isRunning) && !existsSync(cli.directory), "its processes and its directory are gone");
    },
    START_TIMEOUT_MS,
  );

  it(
    "the command ends cleanly on SIGTERM",
    async () => {
      const cli = await startCli([]);
      cli.kill("SIGTERM");
      expect(await cli.ended).toBe(0);
      expect(cli.pids.filter(isRunning)).toEqual([]);
      expect(existsSync(cli.directory)).toBe(false);
    },
    START_TIMEOUT_MS,
  );
});

function workloads(): object {
  const labels = { app: "quiet" };
  const podSpec = { containers: [{ name: "app", image: "registry.example/app:1" }] };
  const template = { metadata: { labels }, spec: podSpec };
  return {
    apiVersion: "v1",
    kind: "List",
    items: [
      { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "rolled" }, spec: { selector: { matchLabels: labels }, template } },
      { apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name: "bare" }, spec: { selector: { matchLabels: labels }, template } },
      { apiVersion: "v1", kind: "ReplicationController", metadata: { name: "old" }, spec: { selector: labels, template } },
      {
        apiVersion: "batch/v1",
        kind: "Job",
        metadata: { name: "control" },
        spec: { template: { spec: { ...podSpec, restartPolicy: "Never" } } },
      },
    ],
  };
}

async function ok(controlPlane: ControlPlane, args: readonly string[], input?: string): Promise<{ readonly stdout: string }> {
  const result = await controlPlane.kubectl(args, input === undefined ? {} : { input });
  expect(result.code, `kubectl ${args.join(" ")}: ${result.stderr}`).toBe(0);
  return result;
}

async function eventually(controlPlane: ControlPlane, args: readonly string[]): Promise<void> {
  await until(async () => (await controlPlane.kubectl(args)).code === 0, `kubectl ${args.join(" ")}`);
}

async function names(controlPlane: ControlPlane, namespace: string, kind: string): Promise<readonly string[]> {
  const { stdout } = await ok(controlPlane, ["get", kind, "-n", namespace, "-o", "name"]);
  return stdout.split("\n").filter((line) => line !== "");
}

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const giveUpAt = performance.now() + WAIT_MAX_MS;
  while (!(await holds())) {
    if (performance.now() > giveUpAt) throw new Error(`timed out after ${WAIT_MAX_MS} ms: ${what}`);
    await sleep(100);
  }
}

interface Cli {
  readonly kubectl: string;
  readonly kubeconfig: string;
  readonly directory: string;
  readonly pids: readonly number[];
  readonly ended: Promise<number | null>;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
}

/** Resolves when the command has printed the paths. */
async function startCli(args: readonly string[]): Promise<Cli> {
  const child = spawn(process.execPath, ["test/envtest/cli.ts", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const said: Record<string, string> = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const [, key, value] = /^(\w+): +(.*)$/.exec(line) ?? [];
    if (key !== undefined && value !== undefined) said[key] = value;
    if (line.startsWith("Ctrl-C")) break;
  }
  const { kubectl = "", kubeconfig = "", processes = "" } = said;
  return {
    kubectl,
    kubeconfig,
    directory: dirname(dirname(kubeconfig)),
    pids: [...processes.matchAll(/ (\d+)/g)].map((match) => Number(match[1])),
    ended,
    kill: (signal) => child.kill(signal),
  };
}

async function exitCode(command: string, args: readonly string[], kubeconfig: string): Promise<number | null> {
  const child = spawn(command, args, { stdio: "ignore", env: { ...process.env, KUBECONFIG: kubeconfig } });
  return await new Promise((resolve) => child.once("close", resolve));
}
