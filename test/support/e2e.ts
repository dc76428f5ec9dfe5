/**
 * Shared by the e2e suites: a real control plane with scheduler, scripted nodes and our RBAC manifests, `deltaloop dev` as a
 * child of the test, kubectl, the audit log.
 *
 * EE1 watcher and functions have the tokens of their own service accounts and nothing else; only the test's user and the
 * nodes, which replace kubelets, are administrators.
 * EE2 every wait has a deadline, and reports what it waited for and what it saw last.
 * EE3 processes that a test starts are ended by their id; `dev` ends with the test because its standard input is a pipe from it.
 * EE4 a failed test prints the last output of our programs.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeAll, it } from "vitest";

import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { ROLES } from "../../shared/controllers/registry/rights.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import type { ScriptedNodesOptions } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { isNotFound } from "../../shared/kube/client/errors.ts";
import type { AuditEvent } from "../../shared/replay/shadow/upstream-writes.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import type { ControlPlane } from "../envtest/control-plane.ts";
import { rawClientAt } from "./raw-client.ts";
import type { RawClient } from "./raw-client.ts";
import { ensureRedisServer } from "./redis.ts";

export { eventually } from "./eventually.ts";

export const ROOT = join(import.meta.dirname, "..", "..");
/** The namespace of our service accounts and of the watcher's Lease. */
export const OWN_NAMESPACE = "deltaloop";
/** The context of `dev --nodes`, for its scripted kubelets. */
const NODES_CONTEXT = "deltaloop-nodes";
const READY_MS_MAX = 40_000;
/** A child that does not exit in time is killed, so that a failed test leaves no process. */
const END_MS_MAX = 8_000;

/**
 * Runs `suite` if this machine has a control plane, a redis-server and the suite's other requirements; otherwise reports one skipped test
 * whose name is the reason. With `CI=true` that is a failure, unless only Go is missing, which a test run does not install.
 */
export async function whereRealPartsAre(title: string, suite: () => void, other?: { readonly missing?: string }): Promise<void> {
  const binaries = await controlPlaneBinaries();
  const missing = "missing" in binaries ? binaries.missing : (ensureRedisServer() ?? other?.missing);
  if (missing === undefined) {
    beforeAll(() => programs.clear());
    afterEach(({ task }) => {
      if (task.result?.state === "fail") lastWords();
    });
    return suite();
  }
  process.stderr.write(`!!!!  ${title} cannot run: ${missing}\n`);
  const isOurs = !missing.includes("built with Go");
  if (process.env["CI"] === "true" && isOurs) it(title, () => Promise.reject(new Error(missing)));
  else it.skip(`${title}: ${missing}`);
}

export interface Cluster {
  readonly plane: ControlPlane;
  /** A client of the test's user, for reads that need no kubectl. */
  readonly client: RawClient;
  /** A kubeconfig with a context for each of our roles. */
  readonly rolesKubeconfig: string;
  /** Runs kubectl and returns its standard output. @throws with kubectl's error output when its exit code is not 0 */
  kubectl(...args: readonly string[]): Promise<string>;
  apply(...objects: readonly object[]): Promise<void>;
  /** The object, or undefined if it does not exist. `path` as for `kubectl get --raw`. */
  get<T>(path: string): Promise<T | undefined>;
  list<T>(path: string): Promise<readonly T[]>;
  /** Runs `kubectl rollout status` with a time limit; it decides whether a rollout is complete. */
  rolledOut(namespace: string, deployment: string, timeoutSeconds?: number): Promise<void>;
  audit(): Promise<readonly AuditEntry[]>;
  /** Path of the audit log. */
  readonly auditLog: string;
  stop(): Promise<void>;
}

/** One answered request in the API server's audit log. */
export interface AuditEntry {
  readonly verb: string;
  readonly requestURI: string;
  /** The time of the response, in microseconds. */
  readonly stageTimestamp: string;
  readonly userAgent?: string;
  readonly user: { readonly username: string };
  readonly objectRef?: AuditEvent["objectRef"];
  readonly responseStatus?: { readonly code?: number; readonly reason?: string };
  readonly requestObject?: { readonly metadata?: { readonly name?: string } };
}

export interface ClusterOptions {
  /** Default `"without-workloads"`, which also has our service accounts. */
  readonly controllers?: "without-workloads" | "all";
  /**
   * False: neither scheduler nor nodes, for tests with `dev --nodes 2 --bind-pods`. `"scheduler"`: a scheduler without nodes, for tests
   * that start their own. Default true: both.
   */
  readonly machines?: boolean | "scheduler";
  /** The number of scripted nodes, with 1,000 pods each. Default 2. */
  readonly nodes?: number;
  /** Delays of the scripted nodes' pods. */
  readonly pace?: Pick<ScriptedNodesOptions, "readyAfterMs" | "deleteAfterMs">;
  /** False: without upstream's garbage collector. Default true. */
  readonly garbageCollection?: boolean;
  /** The audit log includes the responses to workload writes. Default false. */
  readonly auditAnswers?: boolean;
  /** Enables certificate signing for nodes that join; `seconds` is the lifetime of the certificates. */
  readonly signing?: { readonly seconds: number };
  /** APIServices may be served by extension API servers. Default false. */
  readonly frontProxy?: boolean;
}

/** A control plane with, by default, a scheduler and two scripted nodes. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const {
    controllers = "without-workloads",
    machines = true,
    garbageCollection = true,
    nodes: count = 2,
    pace,
    auditAnswers = false,
    signing,
    frontProxy = false,
  } = options;
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-e2e-"));
  const auditLog = join(directory, "audit.log");
  const kubeApi = { qps: 200, burst: 400 };
  const scheduler = machines !== false;
  const plane = await startControlPlane({
    controllers,
    garbageCollection,
    scheduler,
    auditLog,
    auditAnswers,
    kubeApi,
    frontProxy,
    ...(signing && { signing }),
  });
  const ending = new AbortController();
  const kubectl = async (...args: readonly string[]): Promise<string> => said(await plane.kubectl(args), args);
  const client = await rawClientAt(plane.adminKubeconfig, "e2e");
  const nodesConfig = await kubeHttpConfigFrom(plane.adminKubeconfig, { component: "nodes" });
  const nodes = createKubeHttp({ ...nodesConfig, userAgent: "e2e-nodes" });
  const script = { count, clock: createSystemClock(), random: createSystemRandom(), bindPods: false, ...pace };
  const running = machines === true ? runScriptedNodes(nodes, script, ending.signal) : Promise.resolve();
  running.catch((error: unknown) => ending.signal.aborted || process.stderr.write(`e2e: the scripted nodes ended: ${String(error)}\n`));
  let rolesKubeconfig = "";
  if (controllers === "without-workloads") {
    for (const file of ["rbac.yaml", "canary.yaml"]) await kubectl("apply", "-f", join(ROOT, "infra/manifests", file));
    rolesKubeconfig = join(directory, "roles.kubeconfig");
    await writeFile(rolesKubeconfig, await kubeconfigOfRoles(plane), { mode: 0o600 });
  }
  return {
    plane,
    client,
    rolesKubeconfig,
    auditLog,
    kubectl,
    async apply(...objects) {
      if (objects.length === 0) return; // kubectl rejects an empty input
      const args = ["apply", "-f", "-"];
      said(await plane.kubectl(args, { input: JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }) }), args);
    },
    async get<T>(path: string) {
      try {
        return (await client.request("GET", path)) as T; // the caller names the type of the object
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async list<T>(path: string) {
      return (await client.list(path)).items as readonly T[]; // as above
    },
    async rolledOut(namespace, deployment, timeoutSeconds = 60) {
      await kubectl("rollout", "status", `deployment/${deployment}`, "-n", namespace, `--timeout=${timeoutSeconds}s`);
    },
    async audit() {
      const text = await readFile(auditLog, "utf8");
      // The last line may be incomplete.
      return text
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as AuditEntry); // written by the API server
    },
    async stop() {
      ending.abort();
      await running.catch(() => undefined);
      await plane.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function said(result: { readonly code: number; readonly stdout: string; readonly stderr: string }, args: readonly string[]): string {
  if (result.code !== 0) throw new Error(`kubectl ${args.join(" ")}: exit ${result.code}: ${result.stderr.trim()}`);
  return result.stdout;
}

interface KubeconfigFile {
  readonly clusters: readonly { readonly name: string; readonly cluster: object }[];
  readonly users: readonly { readonly name: string; readonly user: object }[];
}

/** The control plane's kubeconfigs are JSON with one user each; this one has all of them, with contexts named like the roles. */
export async function kubeconfigOfRoles(plane: ControlPlane): Promise<string> {
  const users: { readonly name: string; readonly user: object }[] = [];
  let clusters: KubeconfigFile["clusters"] = [];
  for (const name of [...ROLES.map((role) => role.name), NODES_CONTEXT]) {
    const path = name === NODES_CONTEXT ? plane.adminKubeconfig : await plane.serviceAccountKubeconfig(OWN_NAMESPACE, name);
    const one = JSON.parse(await readFile(path, "utf8")) as KubeconfigFile; // written by test/envtest
    users.push({ name, user: one.users[0]?.user ?? {} });
    clusters = one.clusters;
  }
  const contexts = users.map(({ name }) => ({ name, context: { cluster: clusters[0]?.name, user: name } }));
  return JSON.stringify({ apiVersion: "v1", kind: "Config", clusters, users, contexts, "current-context": contexts[0]?.name });
}

/** A running `deltaloop` command. */
export interface Running {
  readonly pid: number;
  /** All output so far, of both streams. */
  output(): string;
  /**
   * Resolves when a line that contains `text` has been written; rejects with the output when the command exits first, or after `timeoutMs`.
   */
  line(text: string, timeoutMs?: number): Promise<string>;
  readonly exited: Promise<{ readonly code: number | null; readonly afterMs: number }>;
  /** Process ids of dev's processes by name, the newest of each. */
  pids(): Readonly<Record<string, number>>;
  /** Sends SIGTERM and, after 8 s, SIGKILL. Returns the duration. */
  stop(): Promise<number>;
}

/** Commands that this test file has started and not stopped, by command line. */
const programs = new Map<string, Running>();
const LAST_LINES = 60;

/** EE4 */
function lastWords(): void {
  for (const [command, { output }] of programs) {
    const lines = output().trimEnd().split("\n").slice(-LAST_LINES);
    process.stderr.write(`last output of ${command}:\n${lines.map((line) => `    ${line}\n`).join("")}`);
  }
}

/** Starts `deltaloop <args>`, without the environment's own KUBECONFIG; runs the sources, unless `main` is another program. */
export function deltaloop(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  main = join(ROOT, "cli/main.ts"),
): Running {
  const startedAt = performance.now();
  const { KUBECONFIG: _ours, ...inherited } = process.env;
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...inherited, NO_COLOR: "1", ...environment },
  });
  let output = "";
  const listeners = new Set<() => void>();
  const more = (text: string): void => {
    output += text;
    for (const listener of listeners) listener();
  };
  child.stdout.setEncoding("utf8").on("data", more);
  child.stderr.setEncoding("utf8").on("data", more);
  child.stdin.on("error", () => undefined);
  let ended = false;
  const exited = new Promise<{ code: number | null; afterMs: number }>((resolve) => {
    child.once("close", (code) => {
      ended = true;
      resolve({ code, afterMs: performance.now() - startedAt });
      more("");
    });
  });
  const command = `deltaloop ${args.join(" ")} (pid ${child.pid})`;
  const self: Running = {
    pid: child.pid ?? 0,
    output: () => output,
    exited,
    line: (text, timeoutMs = READY_MS_MAX) =>
      new Promise((resolve, reject) => {
        const settle = (act: () => void): void => {
          listeners.delete(look);
          clearTimeout(timer);
          act();
        };
        const fail = (why: string): void =>
          settle(() => reject(new Error(`deltaloop ${args.join(" ")}: ${why} "${text}"; it said:\n${output}`)));
        const timer = setTimeout(() => fail(`after ${timeoutMs} ms no`), timeoutMs);
        const look = (): void => {
          const line = output
            .split("\n")
            .slice(0, -1)
            .find((one) => one.includes(text));
          if (line !== undefined) settle(() => resolve(line));
          else if (ended) fail("ended without");
        };
        listeners.add(look);
        look();
      }),
    pids: () => Object.fromEntries([...output.matchAll(/(\w+) started pid=(\d+)/g)].map(([, name = "", pid]) => [name, Number(pid)])),
    async stop() {
      const from = performance.now();
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      await exited;
      clearTimeout(killer);
      programs.delete(command);
      return performance.now() - from;
    },
  };
  programs.set(command, self);
  return self;
}

/** Starts `deltaloop dev --act` with the roles' own credentials; resolves when it reports that it is ready. */
export async function startDev(cluster: Cluster, ...args: readonly string[]): Promise<Running> {
  const dev = deltaloop(["dev", "--act", "--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", OWN_NAMESPACE, ...args]);
  await dev.line("ready:");
  return dev;
}

/** Sends SIGKILL to one process by its id. */
export function killHard(pid: number | undefined): void {
  if (pid === undefined || pid === 0) throw new Error("no such process");
  process.kill(pid, "SIGKILL");
}

/** A zombie counts as ended: a container may have no init process that reaps the children of a killed parent immediately. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return process.platform !== "linux"; // without /proc, the signal was delivered, so the process exists
  }
}

/** Prints a measurement in one line. */
export function measured(line: string): void {
  process.stderr.write(`      measured: ${line}\n`);
}
