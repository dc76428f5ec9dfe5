/** The PLEG. It relists the runtime every second (node-agent §12) and checks its health every five seconds (§3.1). */
import type { Container, RuntimeCondition } from "../../ports/cri-types.ts";
import { deadInstancesOf, instanceOf } from "../kuberuntime/container-gc.ts";
import { LABELS } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { countRunning, relist, withUnread, type PodLifecycleEvent, type Running } from "./relist.ts";
import { shouldPodContentBeRemoved } from "../pod-workers/worker-queries.ts";
import { removeContainer, storedContainers } from "../kuberuntime/remove-container.ts";
import { enqueuePod, type EnqueuePorts } from "../pod-workers/update-worker.ts";

/** Age of the last relist above which the runtime counts as hung. Source: pkg/kubelet/kubelet.go genericPlegRelistThreshold. */
const RELIST_STALE_MS = 180_000;

/** Relists the runtime. @throws if the runtime does not respond; the record is kept, so that the next relist finds the same changes */
export async function relistPods(
  ports: Pick<NodePorts, "cri" | "known" | "store" | "files" | "clock" | "log" | "metrics" | "pods" | "operations" | "condition" | "send">,
): Promise<void> {
  const { cri, known, condition, clock, metrics } = ports;
  const atMs = clock.now();
  if (condition.relisted !== undefined)
    metrics?.observe("kubelet_pleg_relist_interval_seconds", {}, (atMs - condition.relisted.atMs) / 1000);
  const [sandboxes, containers] = await Promise.all([cri.listPodSandbox(), cri.listContainers()]);
  setMetrics(ports, countRunning(sandboxes, containers), atMs);
  const before = condition.relisted?.record;
  const { record, events } = relist(before, sandboxes, containers);
  condition.relisted = { record, atMs };
  known.keep((id) => record.states[id]?.state === "running");
  const unread: string[] = [];
  for (const [uid, ofPod] of Map.groupBy(events, (event) => event.uid)) {
    try {
      await deliver(ports, uid, ofPod, containers);
    } catch (error) {
      unread.push(uid);
      ports.log.warn("failed to deliver lifecycle events; will retry after the next relist", { pod: uid, error: String(error) });
    }
  }
  if (unread.length > 0) condition.relisted = { record: withUnread(before, record, unread), atMs };
  metrics?.observe("kubelet_pleg_relist_duration_seconds", {}, (clock.now() - atMs) / 1000);
}

function setMetrics({ metrics }: Pick<NodePorts, "metrics">, { pods, containers }: Running, atMs: number): void {
  metrics?.set("kubelet_pleg_last_seen_seconds", {}, Math.floor(atMs / 1000));
  metrics?.set("kubelet_running_pods", {}, pods);
  for (const state of ["created", "running", "exited", "unknown"] as const)
    metrics?.set("kubelet_running_containers", { container_state: state }, containers[state]);
}

/** @param listed the containers from which the events were generated */
async function deliver(
  ports: EnqueuePorts & Pick<NodePorts, "cri" | "files">,
  uid: string,
  events: readonly PodLifecycleEvent[],
  listed: readonly Container[],
): Promise<void> {
  const pod = ports.pods.get(uid);
  if (pod === undefined) return;
  if (events.some(({ type }) => type !== "ContainerRemoved")) await enqueuePod(ports, uid, events.map(({ type }) => type).join());
  const died = events.filter(({ type }) => type === "ContainerDied");
  if (died.length === 0) return;
  const record = await ports.store.read("workers", uid);
  const removesAll = record?.evicted === true || shouldPodContentBeRemoved(record, false);
  const instances = listed.filter(({ labels }) => labels[LABELS.podUid] === uid).map(instanceOf);
  const stored = await storedContainers(ports, uid);
  const ids = died.flatMap(({ id }) => deadInstancesOf(instances, removesAll ? "all" : { diedId: id }, (one) => stored.has(one)));
  for (const id of new Set(ids)) await removeContainer(ports, id);
}

/** Updates `condition` with the runtime status and the network status. */
export async function checkRuntime({ cri, condition, clock }: Pick<NodePorts, "cri" | "clock" | "condition">): Promise<void> {
  const { runtimeError, networkError } = await cri.status().then(
    (conditions) => ({
      runtimeError: unmet(conditions, "RuntimeReady", "container runtime not ready"),
      networkError: unmet(conditions, "NetworkReady", "container runtime network not ready"),
    }),
    (error: unknown) => ({ runtimeError: `container runtime is down: ${String(error)}`, networkError: undefined }),
  );
  const relistedAtMs = condition.relisted?.atMs ?? condition.startedAtMs;
  const stale = clock.now() - relistedAtMs > RELIST_STALE_MS ? "PLEG is not healthy: pleg was last seen active over 3m0s ago" : undefined;
  set(condition, "runtimeError", runtimeError ?? stale);
  set(condition, "networkError", networkError);
}

function unmet(conditions: readonly RuntimeCondition[], type: string, text: string): string | undefined {
  const found = conditions.find((one) => one.type === type);
  if (found?.status === true) return undefined;
  return `${text}: ${type}=false reason:${found?.reason ?? "Unknown"} message:${found?.message ?? ""}`;
}

function set(condition: NodePorts["condition"], field: "runtimeError" | "networkError", value: string | undefined): void {
  if (value === undefined) delete condition[field];
  else condition[field] = value;
}
