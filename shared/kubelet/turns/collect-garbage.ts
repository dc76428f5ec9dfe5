/** Each minute: dead containers, dead sandboxes, logs and control groups that nobody needs (node-agent §16, §3.2 step 12). */
import { containersToRemove, logDirectoriesToRemove, sandboxesToRemove } from "../container-gc.ts";
import { LABELS } from "../labels.ts";
import type { NodePorts } from "../node-ports.ts";
import { shouldPodContentBeRemoved } from "../worker-questions.ts";
import { unlessGone } from "./kill.ts";
import { storedContainers } from "./relist.ts";

export async function collectGarbage(ports: NodePorts): Promise<void> {
  const { cri, files, store, condition } = ports;
  const records = await store.rows("workers");
  const questions = {
    contentRemovable: (uid: string) => shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce),
    allSourcesReady: condition.sourcesReady,
  };
  const containers = await cri.listContainers();
  const uids = new Set(containers.flatMap(({ labels }) => labels[LABELS.podUid] ?? []));
  const stored = new Map(await Promise.all([...uids].map(async (uid) => [uid, await storedContainers(ports, uid)] as const)));
  const uidOf = new Map(containers.map(({ id, labels }) => [id, labels[LABELS.podUid] ?? ""]));
  // Of a pod that is gone for good, no status will ever be sent.
  const statusStored = (id: string): boolean => {
    const uid = uidOf.get(id) ?? "";
    return stored.get(uid)?.has(id) === true || questions.contentRemovable(uid);
  };
  for (const id of containersToRemove(containers, { ...questions, statusStored })) {
    const { state, logPath } = await cri.containerStatus(id);
    if (state === "CONTAINER_UNKNOWN") await cri.stopContainer(id, 0).catch(unlessGone);
    await files.removeContainerLogs(logPath);
    await cri.removeContainer(id).catch(unlessGone);
  }
  for (const id of sandboxesToRemove(await cri.listPodSandbox(), await cri.listContainers(), questions)) {
    await cri.stopPodSandbox(id).catch(unlessGone);
    await cri.removePodSandbox(id).catch(unlessGone);
  }
  for (const directory of logDirectoriesToRemove(await files.logDirectories(), questions)) await files.removeLogDirectory(directory);
  await files.removeDeadLinks();
  for (const uid of await ports.cgroups.uids()) if (questions.contentRemovable(uid)) await ports.cgroups.remove(uid);
}
