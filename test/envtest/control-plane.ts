/**
 * A real control plane on this machine: etcd, kube-apiserver and, on request, kube-controller-manager and kube-scheduler.
 *
 * CP1 it listens on loopback only, on its own ports, and keeps all its files in its own temporary directory.
 * CP2 it ends with the process that started it: by stop(), or after a crash by the guard (component.ts).
 * CP3 it ends only processes that it has started itself, by pid.
 * CP4 identities are those of a real cluster: RBAC and NodeRestriction are on, every component has its own certificate, and each controller
 *     its service account. Only two users are in `system:masters`: the test's admin user and, as with kubeadm, the API server's client
 *     identity for kubelets.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type ApiClient, createApiClient } from "./api-client.ts";
import { type ControlPlaneBinaries, controlPlaneBinaries } from "./binaries.ts";
import { type Component, ComponentEndedError, waitUntilReady } from "./component.ts";
import { saveSnapshot } from "./etcd-snapshot.ts";
import {
  apiServerFlags,
  controllerManagerFlags,
  etcdFlags,
  etcdRestoreFlags,
  schedulerFlags,
  workloadLoopsFlags,
  type LoopOptions,
  writeServerFiles,
} from "./flags.ts";
import { freePorts } from "./free-ports.ts";
import { certificateUser, kubeconfig, type KubectlResult, type KubeconfigUser, runKubectl } from "./kubectl.ts";
import type { ControlPlaneOptions } from "./options.ts";
import { createParts, type Parts } from "./parts.ts";
import { type Certificate, createPki } from "./pki.ts";

const run = promisify(execFile);

/** A running control plane. */
export interface ControlPlane {
  /** `https://127.0.0.1:<port>`; it does not change. */
  readonly url: string;
  /** The kubeconfig of the test's admin user, who is in `system:masters`. Like all kubeconfigs here it refers to no other files. */
  readonly adminKubeconfig: string;
  /** Path of a kubeconfig for a client certificate, e.g. `{ user: "system:node:n1", groups: ["system:nodes"] }`. */
  kubeconfigFor(identity: { readonly user: string; readonly groups: readonly string[] }): Promise<string>;
  /** Path of a kubeconfig with a token (24 h) of an existing service account. */
  serviceAccountKubeconfig(namespace: string, name: string): Promise<string>;
  /** A client certificate of this cluster's CA, PEM. */
  clientCertificate(user: string, groups: readonly string[]): Promise<Certificate>;
  /** A certificate for another server on 127.0.0.1, such as a proxy, signed by this cluster's CA. */
  serverCertificate(): Promise<Certificate>;
  /** The cluster's CA, PEM. */
  readonly ca: string;
  /**
   * Starts upstream's three workload controllers, which `"without-workloads"` leaves out, in a separate process that connects through
   * `server`, for example a proxy that authenticates with `identity`.
   * @returns a function that stops them
   */
  startWorkloadLoops(through: { readonly server: string; readonly identity: Certificate } & LoopOptions): Promise<() => Promise<void>>;
  /** Runs this release's kubectl, by default as admin. Returns a non-zero exit code instead of throwing. */
  kubectl(args: readonly string[], options?: { readonly kubeconfig?: string; readonly input?: string }): Promise<KubectlResult>;
  /**
   * Stops the API server and starts it again with the same port and data; resolves when it is ready, after about 6 s. It stops
   * listening 1 s after SIGTERM; watches stay open and silent until it is killed 3 s later, then break.
   */
  restartApiServer(): Promise<void>;
  /**
   * Stops everything except etcd and starts the programs of another release with the same ports and data. Resolves when the API server is
   * ready.
   */
  changeRelease(other: ControlPlaneBinaries): Promise<void>;
  /** Writes a snapshot of etcd and returns its path. */
  snapshotEtcd(): Promise<string>;
  /**
   * Stops the whole control plane, restores the snapshot as Kubernetes' documentation recommends, and starts everything again on the same
   * ports, including scheduler and controller manager, whose caches may contain objects of the lost history. resourceVersions continue far
   * above all earlier ones, while objects keep their old resourceVersions. With `bumpRevision` 0, the restore ignores that recommendation:
   * resourceVersions restart from the snapshot and are used a second time.
   * Source: kubernetes.io, Operating etcd clusters, Restoring an etcd cluster.
   */
  restoreEtcd(snapshot: string, options: { readonly bumpRevision: number }): Promise<void>;
  /** The running processes, by program name. */
  pids(): Readonly<Record<string, number>>;
  /** Sends SIGTERM to all processes and SIGKILL to those that do not exit in time, then removes the directory. May be called twice. */
  stop(): Promise<void>;
}

/** Attempts to start: another process may bind a port between its choice and the component's start. */
const START_ATTEMPTS_MAX = 3;
/** A start takes 4 s on an idle machine with 2 cores, and many times that during other test runs. */
const READY_TIMEOUT_MS = 90_000;
const READY_POLL_MS = 50;
const TOKEN_SECONDS = 24 * 60 * 60;
const WORKLOAD_LOOPS = "workload-loops";

/**
 * Starts a control plane and resolves when it is ready: `/readyz` returns ok and the default namespace has its service account, so that
 * pods can be created there.
 *
 * @throws {Error} if a program is missing (see controlPlaneBinaries), or if a component exits or does not become ready. The message then
 * has the last lines of its log, and the logs are kept.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) throw new Error(binaries.missing);
  for (let attempt = 1; ; attempt++) {
    const isLast = (error: unknown): boolean => !(error instanceof ComponentEndedError && error.portTaken && attempt < START_ATTEMPTS_MAX);
    try {
      return await startOnce(binaries, options, isLast);
    } catch (error) {
      if (isLast(error)) throw error;
    }
  }
}

/** Makes one attempt to start. After a failure it removes its files; the last attempt keeps the logs. */
async function startOnce(
  binaries: ControlPlaneBinaries,
  options: ControlPlaneOptions,
  isLast: (error: unknown) => boolean,
): Promise<ControlPlane> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-control-plane-"));
  const stateFolder = join(directory, "state");
  const parts = createParts(directory, options.logDirectory ?? join(directory, "logs"));
  try {
    await mkdir(stateFolder, { mode: 0o700 });
    await parts.makeLogFolder();
    return await assemble(binaries, options, { stateFolder, parts, removeAll: async () => await remove(directory) });
  } catch (error) {
    await parts.endAll();
    await remove(options.logDirectory === undefined && isLast(error) ? stateFolder : directory);
    throw error;
  }
}

async function assemble(
  first: ControlPlaneBinaries,
  options: ControlPlaneOptions,
  { stateFolder, parts, removeAll }: { readonly stateFolder: string; readonly parts: Parts; readonly removeAll: () => Promise<void> },
): Promise<ControlPlane> {
  let binaries = first;
  const [etcdPort, apiPort] = await freePorts();
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const url = `https://127.0.0.1:${apiPort}`;

  const startEtcd = async (dataFolder: string): Promise<Component> =>
    await parts.start("etcd", binaries.etcd, etcdFlags(etcdUrl, dataFolder));
  const isEtcdReady = async (etcd: Component): Promise<void> =>
    await waitUntilReady(etcd, async () => await isHealthy(etcdUrl), patience("etcd answers /health"));

  const etcd = await startEtcd(join(stateFolder, "etcd"));
  const pki = await createPki(join(stateFolder, "pki"));
  const files = await writeServerFiles(stateFolder, pki, options);
  const admin = await pki.clientCertificate("deltaloop-envtest-admin", ["system:masters"]);
  const api = createApiClient({ server: url, ca: pki.ca, cert: admin.certificate, key: admin.key });

  let kubeconfigs = 0;
  const writeKubeconfig = async (name: string, user: KubeconfigUser, server = url): Promise<string> => {
    const path = join(stateFolder, `${++kubeconfigs}-${name.replace(/[^\w.-]/g, "_")}.kubeconfig`);
    await writeFile(path, kubeconfig(server, pki.ca, name, user), { mode: 0o600 });
    return path;
  };
  const kubeconfigFor: ControlPlane["kubeconfigFor"] = async ({ user, groups }) =>
    await writeKubeconfig(user, certificateUser(await pki.clientCertificate(user, groups)));

  const startApiServer = async (): Promise<void> => {
    const flags = apiServerFlags({
      port: apiPort,
      etcdUrl,
      caFile: pki.caFile,
      files,
      auditLog: options.auditLog,
      bootstrapTokens: options.signing !== undefined,
    });
    const component = await parts.start("kube-apiserver", binaries.kubeApiserver, flags);
    await waitUntilReady(component, async () => await isOk(api, "/readyz"), patience("kube-apiserver answers /readyz"));
  };

  const adminKubeconfig = await writeKubeconfig("admin", certificateUser(admin));
  await isEtcdReady(etcd);
  await startApiServer();

  const schedulerConfig = await kubeconfigFor({ user: "system:kube-scheduler", groups: [] });
  const managerConfig = await kubeconfigFor({ user: "system:kube-controller-manager", groups: [] });
  /** Starts the scheduler, if requested, and the controller manager. */
  const startClients = async (): Promise<Component> => {
    if (options.scheduler === true) await parts.start("kube-scheduler", binaries.kubeScheduler, schedulerFlags(schedulerConfig, options));
    const flags = controllerManagerFlags({ config: managerConfig, pki, files, options });
    return await parts.start("kube-controller-manager", binaries.kubeControllerManager, flags);
  };
  const manager = await startClients();
  const defaultAccount = "/api/v1/namespaces/default/serviceaccounts/default";
  await waitUntilReady(manager, async () => await isOk(api, defaultAccount), patience("the default service account exists"));
  parts.reportEnds();

  const endAllButEtcd = async (): Promise<void> => {
    await parts.end("kube-controller-manager");
    if (options.scheduler === true) await parts.end("kube-scheduler");
    await parts.end("kube-apiserver");
  };

  let snapshots = 0;
  let stopped: Promise<void> | undefined;
  return {
    url,
    adminKubeconfig,
    kubeconfigFor,
    async serviceAccountKubeconfig(namespace, name) {
      const token = await requestToken(api, namespace, name);
      return await writeKubeconfig(`${namespace}-${name}`, { token });
    },
    clientCertificate: async (user, groups) => await pki.clientCertificate(user, groups),
    serverCertificate: async () => await pki.serverCertificate(),
    ca: pki.ca,
    async startWorkloadLoops({ server, identity, ...loopOptions }) {
      const loops = await writeKubeconfig("workload-loops", certificateUser(identity), server);
      await parts.start(WORKLOAD_LOOPS, binaries.kubeControllerManager, workloadLoopsFlags(loops, loopOptions));
      return async () => await parts.end(WORKLOAD_LOOPS);
    },
    kubectl: async (args, { kubeconfig: path = adminKubeconfig, input } = {}) =>
      await runKubectl(binaries.kubectl, args, { kubeconfig: path, input, cacheFolder: join(stateFolder, "kubectl-cache") }),
    async restartApiServer() {
      await parts.end("kube-apiserver");
      await startApiServer();
    },
    async changeRelease(other) {
      await endAllButEtcd();
      binaries = other;
      await startApiServer();
      await startClients();
    },
    async snapshotEtcd() {
      const path = join(stateFolder, `snapshot-${++snapshots}.db`);
      await saveSnapshot(etcdUrl, path);
      return path;
    },
    async restoreEtcd(snapshot, { bumpRevision }) {
      const dataFolder = `${snapshot}.etcd`;
      await endAllButEtcd();
      await parts.end("etcd");
      await run(binaries.etcdutl, etcdRestoreFlags(snapshot, dataFolder, bumpRevision));
      await isEtcdReady(await startEtcd(dataFolder));
      await startApiServer();
      await startClients();
    },
    pids: () => parts.pids(),
    async stop() {
      stopped ??= parts.endAll().then(removeAll);
      await stopped;
    },
  };
}

/** Source: authentication.k8s.io/v1 TokenRequest. */
async function requestToken(api: ApiClient, namespace: string, name: string): Promise<string> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}/token`;
  const answer = await api("POST", path, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { expirationSeconds: TOKEN_SECONDS },
  });
  // The cast only states the expected fields; the code below checks them.
  const body = answer.body as { readonly status?: { readonly token?: unknown }; readonly message?: unknown };
  const token = body.status?.token;
  if (typeof token === "string") return token;
  throw new Error(`no token for service account ${namespace}/${name}: ${answer.code} ${String(body.message)}`);
}

async function isOk(api: ApiClient, path: string): Promise<boolean> {
  return await api("GET", path).then(
    (answer) => answer.code === 200,
    () => false,
  );
}

async function isHealthy(etcdUrl: string): Promise<boolean> {
  return await fetch(`${etcdUrl}/health`).then(
    (response) => response.ok,
    () => false,
  );
}

function patience(what: string): { readonly what: string; readonly timeoutMs: number; readonly pollMs: number } {
  return { what, timeoutMs: READY_TIMEOUT_MS, pollMs: READY_POLL_MS };
}

async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}
