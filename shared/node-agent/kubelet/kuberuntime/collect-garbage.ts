/**
 * Each minute: dead containers, dead sandboxes and logs that nobody needs (node-agent §16). Each ten seconds: logs that have grown too
 * large step aside (§7.8).
 */
import { containersToRemove, logDirectoriesToRemove, sandboxesToRemove } from "./container-gc.ts";
import { LABELS } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { shouldPodContentBeRemoved, shouldRuntimeObjectsBeRemoved } from "../pod-workers/worker-questions.ts";
import { unlessGone } from "./kill-pod.ts";
import { storedContainers, removeContainer } from "./remove-container.ts";
import { attempt } from "../node-ports/attempt.ts";

/** Directories, which share one look at what is mounted. */
const LOGS_AT_ONCE = 32;

/** `ofEnded`: also the last dead containers of pods that have ended and are still there, whose logs could be read otherwise. */
export async function collectGarbage(
  ports: Pick<NodePorts, "cri" | "store" | "files" | "log" | "condition">,
  { ofEnded = false }: { readonly ofEnded?: boolean } = {},
): Promise<void> {
  const { cri, files, store, condition, log } = ports;
  // What there is, before who is known: a pod has its worker before anything of it is made.
  const containers = await cri.listContainers();
  const sandboxes = await cri.listPodSandbox();
  const logDirectories = await files.logDirectories();
  const records = await store.rows("workers");
  const questions = {
    contentRemovable: (uid: string) => shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce),
    containersRemovable: (uid: string) =>
      shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce) ||
      (ofEnded && shouldRuntimeObjectsBeRemoved(records.get(uid), condition.syncedOnce)),
    allSourcesReady: condition.sourcesReady,
  };

  const uids = new Set(containers.flatMap(({ labels }) => labels[LABELS.podUid] ?? []));
  const stored = new Map(await Promise.all([...uids].map(async (uid) => [uid, await storedContainers(ports, uid)] as const)));
  const uidOf = new Map(containers.map(({ id, labels }) => [id, labels[LABELS.podUid] ?? ""]));
  // Of a pod that is gone, or has said its last word, no other status will be sent.
  const isSilent = (uid: string): boolean =>
    questions.contentRemovable(uid) && (!records.has(uid) || records.get(uid)?.terminatedAtMs !== undefined);
  const statusStored = (id: string): boolean => {
    const uid = uidOf.get(id) ?? "";
    return stored.get(uid)?.has(id) === true || isSilent(uid);
  };
  const removed = new Set<string>();
  for (const id of containersToRemove(containers, { ...questions, contentRemovable: questions.containersRemovable, statusStored }))
    await attempt(log, "a dead container was not removed", { container: id }, async () => {
      await removeContainer(ports, id);
      removed.add(id);
    });
  const left = containers.filter(({ id }) => !removed.has(id));
  for (const id of sandboxesToRemove(sandboxes, left, questions))
    await attempt(log, "a dead sandbox was not removed", { sandbox: id }, async () => {
      await cri.stopPodSandbox(id).catch(unlessGone);
      await cri.removePodSandbox(id).catch(unlessGone);
    });
  const unused = logDirectoriesToRemove(logDirectories, questions);
  const remove = (directory: string): Promise<void> =>
    attempt(log, "a log directory was not removed", { directory }, () => files.removeLogDirectory(directory));
  for (let at = 0; at < unused.length; at += LOGS_AT_ONCE) await Promise.all(unused.slice(at, at + LOGS_AT_ONCE).map(remove));
  await attempt(log, "dead links were not removed", {}, () => files.removeDeadLinks());
}

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go ContainerLogMaxSize, ContainerLogMaxFiles. */
const LOG_LIMITS = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

export class LogRotation {
  readonly #ports: Pick<NodePorts, "cri" | "known" | "files" | "clock" | "log">;

  constructor(ports: Pick<NodePorts, "cri" | "known" | "files" | "clock" | "log">) {
    this.#ports = ports;
  }

  /** One log that cannot be rotated is named and does not keep the others. */
  async rotate(): Promise<void> {
    const { cri, known, log } = this.#ports;
    for (const listed of await cri.listContainers({ state: "CONTAINER_RUNNING" }))
      await attempt(log, "a container's log was not rotated", { container: listed.id }, async () => {
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
