/** Runs housekeeping every two seconds (node-agent §3.2), once all sources are ready. */
import { isMirrorPod, isStaticPod, LABELS } from "../types/labels.ts";
import { needsCurrentList, housekeepingPlan, type DesiredPod, type HousekeepingInput } from "./housekeeping-plan.ts";
import { runningByRelist } from "../node-ports/relist-record.ts";
import { syncKnownPod } from "../pod-workers/known-pods.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { fullName, isTerminalPhase, type NodePod } from "../types/pod.ts";
import { splitProbeKey } from "../prober/probe.ts";
import { killRuntimePod, requeueDelayMs, updateWorker } from "../pod-workers/update-worker.ts";
import { releaseFullName } from "../pod-workers/static-start.ts";
import { couldHaveRunningContainers } from "../pod-workers/worker-queries.ts";
import { updateAllocation } from "../allocation/allocation-manager.ts";
import { NODE_TABLES } from "../../ports/node-store.ts";
import { attempt } from "../node-ports/attempt.ts";
import { forgetProbes } from "../prober/prober-manager.ts";
import { deleteMirror } from "../pod/mirror-client.ts";

/** Unused back-offs expire after twice the maximum back-off (§1). */
const BACK_OFF_FORGOTTEN_MS = 600_000;

/**
 * @param removing UIDs whose directories are being removed in the background, because the removal of a large directory must not block
 * housekeeping
 */
export async function housekeep(ports: NodePorts, removing: Set<string>): Promise<void> {
  if (!ports.condition.sourcesReady) return;
  const { store, pods, cri, clock, condition } = ports;
  // Reads leftovers before desired pods, so that a new pod's resources are not treated as orphaned.
  const cgroups = await ports.containerManager.podUids();
  const directories = await ports.files.podsWithDirectories();
  const statuses = await store.rows("statuses");
  const probed = await store.rows("probes");
  const allocated = [...(await store.rows("allocations")).keys()];
  const due = new Set((await store.agenda("pods")).keys());
  const desired = new Map([...pods.desired(), ...pods.mirrors()].map((pod) => [pod.metadata.uid, pod]));
  await syncWorkers(ports, desired);

  const staticStarts = await store.rows("staticPods");
  const inputOf = async (runningUids: ReadonlySet<string>): Promise<HousekeepingInput> => ({
    desired: new Map([...desired].map(([uid, pod]) => [uid, asDesired(pod, statuses.get(uid)?.status.phase)])),
    runningUids,
    records: await store.rows("workers"),
    directories,
    cgroups,
    cachedStatusUids: [...statuses.keys()],
    probedUids: [...new Set([...probed.keys()].map((key) => splitProbeKey(key).uid))],
    orphanMirrors: pods.orphanMirrors(),
    staticStarts,
    due,
  });
  const seen = condition.relisted && (await inputOf(runningByRelist(condition.relisted.record)));
  const plan = housekeepingPlan(seen === undefined || needsCurrentList(seen) ? await inputOf(await runningNow(cri)) : seen);

  const known = (uids: readonly string[]): readonly NodePod[] => uids.flatMap((uid) => pods.get(uid) ?? []);
  for (const pod of known(plan.create)) await updateWorker(ports, pod, "create", "housekeeping");
  for (const pod of known(plan.kill)) await updateWorker(ports, pod, "kill", "housekeeping");
  for (const uid of plan.killRuntimeOnly) await killRuntimePod(ports, uid, "orphaned pod");
  // From now on, every running pod has a worker.
  ports.condition.syncedOnce = true;
  for (const uid of plan.stopProbes) await forgetProbes(ports, uid);
  for (const uid of plan.dropStatuses) {
    if (pods.get(uid) !== undefined) continue; // the pod has arrived in the meantime
    await store.update("statuses", uid, () => undefined);
  }
  const { log } = ports;
  for (const uid of plan.removeDirectories) {
    if (removing.has(uid)) continue;
    removing.add(uid);
    void attempt(log, "failed to remove the pod's directory", { pod: uid }, () => ports.files.removePodDirectory(uid)).finally(() =>
      removing.delete(uid),
    );
  }
  for (const mirror of pods.mirrors())
    if (plan.deleteMirrors.includes(fullName(mirror)))
      await attempt(log, "failed to delete the mirror pod", { pod: fullName(mirror) }, () => deleteMirror(ports, mirror));
  for (const [name, uid] of plan.releaseFullNames) await store.update("staticPods", name, (start) => releaseFullName(start, uid));
  for (const uid of plan.schedule) {
    const delayMs = requeueDelayMs({ kind: "error", message: "no due time", nowMs: clock.now() }, ports.random.next());
    await store.schedule("pods", uid, clock.now() + delayMs);
  }
  await forgetReasons(ports);
  for (const uid of plan.reduceCgroups)
    await attempt(log, "failed to reduce the pod's CPU weight", { pod: uid }, () => ports.containerManager.reduceCpu(uid));
  for (const uid of plan.removeCgroups) {
    // The UID may be in use again, for example after a static pod manifest was restored.
    if (couldHaveRunningContainers(await store.read("workers", uid), true)) continue;
    await attempt(log, "failed to remove the pod's cgroup", { pod: uid }, () => ports.containerManager.destroy(uid));
  }
  await forgetAllocations(ports, allocated);
  await forgetBackOffs(ports);
  ports.objects.tidy();
  await reportRowCounts(ports);
}

async function runningNow(cri: NodePorts["cri"]): Promise<ReadonlySet<string>> {
  const running = await cri.listContainers({ state: "CONTAINER_RUNNING" });
  const ready = await cri.listPodSandbox({ state: "SANDBOX_READY" });
  return new Set([...running.flatMap(({ labels }) => labels[LABELS.podUid] ?? []), ...ready.map(({ metadata }) => metadata.uid)]);
}

/** Reports the number of rows in each table, so that leaks are detected. */
async function reportRowCounts({ store, metrics }: Pick<NodePorts, "store" | "metrics">): Promise<void> {
  for (const table of NODE_TABLES) metrics?.set("deltaloop_node_rows", { table }, (await store.rows(table)).size);
}

/** Deletes reasons of removed pods, because a late hook may write a row after the pod's record was deleted. */
async function forgetReasons({ store, pods }: Pick<NodePorts, "store" | "pods">): Promise<void> {
  const workers = await store.rows("workers");
  for (const table of ["reasons", "restarts"] as const)
    for (const uid of (await store.rows(table)).keys())
      if (!workers.has(uid) && pods.get(uid) === undefined) await store.update(table, uid, () => undefined);
}

/** Deletes allocations of pods that are neither desired nor have a worker. Source: allocation_manager.go RemoveOrphanedPods. */
async function forgetAllocations(ports: Pick<NodePorts, "store" | "files" | "log" | "pods">, uids: readonly string[]): Promise<void> {
  const { store, pods } = ports;
  for (const uid of uids)
    if (!pods.isDesired(uid) && (await store.read("workers", uid)) === undefined) await updateAllocation(ports, uid, () => undefined);
}

async function syncWorkers(
  ports: Pick<NodePorts, "store" | "clock" | "pods" | "operations" | "send">,
  desired: ReadonlyMap<string, NodePod>,
): Promise<void> {
  const { store, clock } = ports;
  for (const [uid, { isStatic, fullName: name }] of await store.rows("workers")) {
    const pod = desired.get(uid);
    const isDesired = pod !== undefined && !isMirrorPod(pod);
    let purged = false;
    let requeue = false;
    await store.update("workers", uid, (record) => {
      [purged, requeue] = [false, false];
      if (record === undefined) return undefined;
      const step = syncKnownPod(record, isDesired, clock.now());
      purged = step.kind === "purge";
      requeue = step.kind === "change" && step.requeue;
      return step.kind === "purge" ? undefined : step.kind === "change" ? step.record : record;
    });
    if (requeue) {
      ports.operations.cancel(uid);
      ports.send("pods", uid, "no longer desired");
    }
    if (!purged) continue;
    ports.operations.forget(uid);
    ports.pods.forget(uid);
    if (isStatic) await store.update("staticPods", name, (start) => releaseFullName(start, uid));
    await store.unschedule("pods", uid);
  }
}

function asDesired(pod: NodePod, cachedPhase: string | undefined): DesiredPod {
  return {
    fullName: fullName(pod),
    isStatic: isStaticPod(pod),
    isMirror: isMirrorPod(pod),
    ...(pod.metadata.deletionTimestamp !== undefined && { deletionTimestamp: true }),
    phaseIsTerminal: isTerminalPhase(pod.status?.phase) || isTerminalPhase(cachedPhase),
  };
}

async function forgetBackOffs({ store, clock }: Pick<NodePorts, "store" | "clock">): Promise<void> {
  for (const [key, { lastUpdateMs }] of await store.rows("backOffs"))
    if (clock.now() - lastUpdateMs > BACK_OFF_FORGOTTEN_MS) await store.update("backOffs", key, () => undefined);
}
