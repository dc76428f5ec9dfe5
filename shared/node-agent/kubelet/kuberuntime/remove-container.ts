import { containerLogLink } from "../types/log-paths.ts";
import { LABELS } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { unlessGone } from "./kill-pod.ts";

/** Removes a terminated container and its logs (node-agent §16.1). */
export async function removeContainer({ cri, files }: Pick<NodePorts, "cri" | "files">, id: string): Promise<void> {
  const status = await cri.containerStatus(id).catch(unlessGone);
  if (status === undefined) return;
  if (status.state === "CONTAINER_UNKNOWN") await cri.stopContainer(id, 0).catch(unlessGone);
  const { [LABELS.podName]: name = "", [LABELS.podNamespace]: namespace = "", [LABELS.containerName]: container = "" } = status.labels;
  await files.removeContainerLogs(status.logPath, containerLogLink({ name, namespace }, container, id));
  await cri.removeContainer(id).catch(unlessGone);
}

/** Returns the ids of containers whose exit code is in the pod's cached status. */
export async function storedContainers({ store }: Pick<NodePorts, "store">, uid: string): Promise<ReadonlySet<string>> {
  const status = (await store.read("statuses", uid))?.status;
  const entries = [
    ...(status?.containerStatuses ?? []),
    ...(status?.initContainerStatuses ?? []),
    ...(status?.ephemeralContainerStatuses ?? []),
  ];
  const ids = entries.flatMap(({ state, lastState }) => [state?.terminated?.containerID, lastState?.terminated?.containerID]);
  return new Set(ids.flatMap((id) => id?.split("://")[1] ?? []));
}
