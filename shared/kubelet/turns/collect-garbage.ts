/** Each minute: dead containers, dead sandboxes, logs and control groups that nobody needs (node-agent §16, §3.2 step 12). */
import { containersToRemove, logDirectoriesToRemove, sandboxesToRemove } from "../runtime/container-gc.ts";
import { LABELS } from "../labels.ts";
import type { NodePorts } from "../node-ports.ts";
import { shouldPodContentBeRemoved } from "../worker/worker-questions.ts";
import { attempt } from "./attempt.ts";
import { unlessGone } from "./kill.ts";
import { storedContainers } from "./relist.ts";

export async function collectGarbage(ports: NodePorts): Promise<void> {
  const { cri, files, store, condition, log } = ports;
  // What there is, before who is known: a pod has its worker before anything of it is made.
  const containers = await cri.listContainers();
  const sandboxes = await cri.listPodSandbox();
  const logDirectories = await files.logDirectories();
  const cgroups = await ports.cgroups.uids();
  const records = await store.rows("workers");
  const questions = {
    contentRemovable: (uid: string) => shouldPodContentBeRemoved(records.get(uid), condition.syncedOnce),
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
  for (const id of containersToRemove(containers, { ...questions, statusStored }))
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
  for (const directory of logDirectoriesToRemove(logDirectories, questions))
    await attempt(log, "a log directory was not removed", { directory }, () => files.removeLogDirectory(directory));
  await attempt(log, "dead links were not removed", {}, () => files.removeDeadLinks());
  for (const uid of cgroups)
    if (questions.contentRemovable(uid))
      await attempt(log, "a control group was not removed", { pod: uid }, () => ports.cgroups.remove(uid));
}

async function removeContainer({ cri, files }: NodePorts, id: string): Promise<void> {
  const status = await cri.containerStatus(id).catch(unlessGone);
  if (status === undefined) return;
  if (status.state === "CONTAINER_UNKNOWN") await cri.stopContainer(id, 0).catch(unlessGone);
  await files.removeContainerLogs(status.logPath);
  await cri.removeContainer(id).catch(unlessGone);
}
