/** Assembles a node agent from ports: for `deltaloop node`, and for tests on memory adapters. */
import { createEventRecorder } from "../../functions/node/event-recorder/handler.ts";
import {
  podEventRecorder,
  ImagePuller,
  Operations,
  KnownStatuses,
  collectGarbage,
  LogRotation,
  ContainerManager,
  ImageCollector,
  Evictor,
  housekeep,
  NodeIdentity,
  ObjectCache,
  PodCertificates,
  PodSources,
  NodeShutdown,
  runProbe,
  checkRuntime,
  relistPods,
  flushStatuses,
  VolumeMeasures,
  enqueuePod,
  enqueueDue,
} from "@deltaloop/node-agent/kubelet";
import { createPodStatus } from "../../functions/node/pod-status/handler.ts";
import { createPodSync } from "../../functions/node/pod-sync/handler.ts";
import type { Resource } from "@deltaloop/kube/objects";
import type { PodSource, MachineFacts, NodeCondition, NodePorts, NodeQueue, NodePod } from "@deltaloop/node-agent/kubelet";
import { runApiSource } from "@deltaloop/node-agent/sources";
import { createDueWatch, createNodeQueues, runNodeHost } from "@deltaloop/node-agent/host";
import type { NodeHandlers } from "@deltaloop/node-agent/host";
import type { VersionResponse, Logind } from "@deltaloop/node-agent/ports";
import { describeError } from "@deltaloop/kube/client";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";

const RETRY_MS = 500;

/** The node's ports and its identity. */
export interface NodeAgentParts extends Pick<
  NodePorts,
  | "cri"
  | "store"
  | "files"
  | "cgroups"
  | "machine"
  | "prober"
  | "credentials"
  | "clock"
  | "random"
  | "log"
  | "metrics"
  | "options"
  | "pods"
  | "condition"
> {
  readonly kube: KubeReader & KubeWriter & KubeWatch<Resource>;
  readonly facts: MachineFacts;
  /** Name and version that the runtime reports. */
  readonly runtime: Pick<VersionResponse, "runtimeName" | "runtimeVersion">;
  /** Reports shutdowns of the machine; used only if `options.shutdown` has grace periods. */
  readonly logind?: Logind;
  /** No pod is removed until each source has delivered its pods. */
  readonly sources: readonly PodSource[];
}

export interface NodeAgent {
  readonly ports: NodePorts;
  /** Number of waiting and running messages, by queue. */
  readonly queues: { readonly [Q in NodeQueue]: { readonly size: number } };
  /** Returns the callback with which a source delivers all its pods. */
  emit(source: PodSource): (pods: readonly NodePod[]) => void;
  /** Runs the host and the API source until `signal` aborts and running work has ended. */
  run(signal: AbortSignal): Promise<void>;
}

/** The condition before the first observation. */
export function startCondition(startedAtMs: number): NodeCondition {
  return { startedAtMs, sourcesReady: false, syncedOnce: false, lastLoopMs: startedAtMs };
}

export function createNodeAgent(given: NodeAgentParts): NodeAgent {
  const due = createDueWatch(given.store, "probes", given.clock);
  const parts = { ...given, store: due.store };
  const { kube, clock, random, log, options, facts, store, condition } = parts;
  const { runtimeName, runtimeVersion } = parts.runtime;
  const queues = createNodeQueues({ clock, log });
  const nameSalt = Math.floor(random.next() * 1_000_000);
  const record = createEventRecorder({ kube, clock, log, nodeName: options.nodeName, nameSalt, condition });
  const podEvent = podEventRecorder(record);
  const ports: NodePorts = {
    ...parts,
    known: new KnownStatuses(parts.cri),
    containerManager: new ContainerManager({ ...parts, record, resources: facts.resources }),
    operations: new Operations(
      clock,
      (uid) => void enqueuePod(ports, uid, "an operation ended").catch(logged(log, "failed to enqueue a pod")),
    ),
    puller: new ImagePuller(clock, options.imagePulls),
    volumes: new VolumeMeasures(parts),
    objects: new ObjectCache(kube, clock),
    podCertificates: new PodCertificates({ ...parts, podEvent }),
    record,
    podEvent,
    send: (queue, uid, reason) => queues[queue].send({ uid, reason }),
    readNode: () => identity.read(),
    runtimeName,
    resources: facts.resources,
  };
  const identity = new NodeIdentity(ports, facts, `${runtimeName}://${runtimeVersion.replace(/^v/, "")}`);
  const sources = new PodSources(ports, parts.sources);
  const emit = (source: PodSource) => (pods: readonly NodePod[]) =>
    void sources
      .deliver(source, { op: "SET", pods })
      .catch(logged(log, `failed to handle the pods of source ${source}; retrying with its next update`));
  return {
    ports,
    queues,
    emit,
    run: async (signal) => {
      const host = runNodeHost({ store, clock, log, due }, queues, handlersOf(ports, identity, sources), signal);
      const reportStatus = (): Promise<void> => identity.reportStatus();
      const shutdown = parts.logind && new NodeShutdown(ports, { logind: parts.logind, reportStatus }).run(signal);
      await Promise.all([host, runApiSourceOnceRegistered(ports, kube, emit("api"), signal), shutdown]);
    },
  };
}

/** Node-agent §18.3: functions with a handler are in functions/node, each of the others is a single call. Source of the periods: §1. */
function handlersOf(ports: NodePorts, identity: NodeIdentity, sources: PodSources): NodeHandlers {
  const unlessRuntimeAway = (act: (ports: NodePorts) => Promise<void>) => async (): Promise<void> => {
    if (ports.condition.runtimeError === undefined) await act(ports);
  };
  const images = new ImageCollector(ports);
  const logs = new LogRotation(ports);
  const removing = new Set<string>();
  const evictor = new Evictor(ports, { containers: () => collectGarbage(ports, { ofEnded: true }), images: () => images.removeUnused() });
  return {
    queues: { pods: createPodSync(ports), statuses: createPodStatus(ports) },
    podProbe: (key, dueMs) => runProbe(ports, key, dueMs),
    ticks: [
      { name: "runtime check", everyMs: 5_000, act: () => checkRuntime(ports) },
      { name: "control groups", everyMs: 60_000, act: () => ports.containerManager.maintain() },
      { name: "relist", everyMs: 1_000, act: () => relistPods(ports) },
      { name: "sync tick", everyMs: 1_000, act: () => enqueueDue(ports) },
      { name: "housekeeping", everyMs: 2_000, act: unlessRuntimeAway(() => housekeep(ports, removing)) },
      { name: "pending resizes", everyMs: 30_000, act: () => sources.retryResizes() },
      { name: "statuses", everyMs: 10_000, act: () => flushStatuses(ports) },
      { name: "node status", everyMs: 10_000, act: () => identity.reportStatus() },
      { name: "node lease", everyMs: 10_000, act: () => identity.renewLease() },
      { name: "container garbage", everyMs: 60_000, act: unlessRuntimeAway(() => collectGarbage(ports)) },
      { name: "image garbage", everyMs: 300_000, act: unlessRuntimeAway(() => images.collect()) },
      { name: "log rotation", everyMs: 10_000, act: unlessRuntimeAway(() => logs.rotate()) },
      { name: "eviction", everyMs: 1_000, act: unlessRuntimeAway(() => evictor.synchronize()) },
    ],
  };
}

/** The API server lets a node list its pods only once the Node exists (§2.4). */
async function runApiSourceOnceRegistered(
  ports: NodePorts,
  kube: KubeWatch<Resource>,
  emit: Parameters<typeof runApiSource>[0]["emit"],
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, log, metrics, options, condition } = ports;
  while (condition.node === undefined && !signal.aborted) await clock.after(RETRY_MS, signal).catch(() => undefined);
  await runApiSource({ kube, nodeName: options.nodeName, emit, log, clock, random, metrics }, signal);
}

function logged(log: Log, message: string): (error: unknown) => void {
  return (error) => log.error(message, { error: describeError(error) });
}
