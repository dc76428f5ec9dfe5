/** Garbage collection of dead containers, sandboxes and logs every minute (node-agent §16); log rotation every ten seconds (§7.8). */
import { containersToRemove, logDirectoriesToRemove, sandboxesToRemove } from "./container-gc.ts";
import { LABELS } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { shouldPodContentBeRemoved, shouldRuntimeObjectsBeRemoved } from "../pod-workers/worker-queries.ts";
import { unlessGone } from "./kill-pod.ts";
import { storedContainers, removeContainer } from "./remove-container.ts";
import { attempt } from "../node-ports/attempt.ts";

/** Number of directories that are removed in parallel; they share one read of the mount table. */
const LOGS_AT_ONCE = 32;

/** With `ofEnded`, also removes the last dead containers of terminated pods, including their logs. */
export async function collectGarbage(
  ports: Pick<NodePorts, "cri" | "store" | "files" | "log" | "condition">,
  { ofEnded = false }: { readonly ofEnded?: boolean } = {},
): Promise<void> {
  const { cri, files, store, condition, log } = ports;
  // Lists the runtime before reading workers, because a pod has a worker before it has its first container.
  const containers = await cri.listContainers();
  const sandboxes = await cri.listPodSandbox();
  const logDirectories = await files.logDirectories();
  const records = await store.rows("workers");
  const queries = {
    contentRemovable: (uid: string) => shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce),
    containersRemovable: (uid: string) =>
      shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce) ||
      (ofEnded && shouldRuntimeObjectsBeRemoved(records.get(uid), condition.syncedOnce)),
    allSourcesReady: condition.sourcesReady,
  };

  const uids = new Set(containers.flatMap(({ labels }) => labels[LABELS.podUid] ?? []));
  const stored = new Map(await Promise.all([...uids].map(async (uid) => [uid, await storedContainers(ports, uid)] as const)));
  const uidOf = new Map(containers.map(({ id, labels }) => [id, labels[LABELS.podUid] ?? ""]));
  // Whether the status no longer changes, because the pod was deleted or has terminated.
  const isStatusFinal = (uid: string): boolean =>
    queries.contentRemovable(uid) && (!records.has(uid) || records.get(uid)?.terminatedAtMs !== undefined);
  const statusStored = (id: string): boolean => {
    const uid = uidOf.get(id) ?? "";
    return stored.get(uid)?.has(id) === true || isStatusFinal(uid);
  };
  const removed = new Set<string>();
  for (const id of containersToRemove(containers, { ...queries, contentRemovable: queries.containersRemovable, statusStored }))
    await attempt(log, "failed to remove a dead container", { container: id }, async () => {
      await removeContainer(ports, id);
      removed.add(id);
    });
  const left = containers.filter(({ id }) => !removed.has(id));
  for (const id of sandboxesToRemove(sandboxes, left, queries))
    await attempt(log, "failed to remove a dead sandbox", { sandbox: id }, async () => {
      await cri.stopPodSandbox(id).catch(unlessGone);
      await cri.removePodSandbox(id).catch(unlessGone);
    });
  const unused = logDirectoriesToRemove(logDirectories, queries);
  const remove = (directory: string): Promise<void> =>
    attempt(log, "failed to remove a log directory", { directory }, () => files.removeLogDirectory(directory));
  for (let at = 0; at < unused.length; at += LOGS_AT_ONCE) await Promise.all(unused.slice(at, at + LOGS_AT_ONCE).map(remove));
  await attempt(log, "failed to remove dead log links", {}, () => files.removeDeadLinks());
}

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go ContainerLogMaxSize, ContainerLogMaxFiles. */
const LOG_LIMITS = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

export class LogRotation {
  readonly #ports: Pick<NodePorts, "cri" | "known" | "files" | "clock" | "log">;

  constructor(ports: Pick<NodePorts, "cri" | "known" | "files" | "clock" | "log">) {
    this.#ports = ports;
  }

  /** Rotates large logs. A failure is logged, so that it does not prevent the rotation of other logs. */
  async rotate(): Promise<void> {
    const { cri, known, log } = this.#ports;
    for (const listed of await cri.listContainers({ state: "CONTAINER_RUNNING" }))
      await attempt(log, "failed to rotate a container's log", { container: listed.id }, async () => {
        const status = await known.container(listed);
        if (status !== undefined) await this.#rotateOne(listed.id, status.logPath);
      });
  }

  async #rotateOne(id: string, logPath: string): Promise<void> {
    const { cri, files, clock } = this.#ports;
    const rotated = await files.rotateLog(logPath, { ...LOG_LIMITS, nowMs: clock.now() });
    if (rotated === undefined) return;
    await cri.reopenContainerLog(id).catch(async (error: unknown) => {
      await rotated.undo();
      throw error;
    });
  }
}
