/** How a container that has ended goes (node-agent §16.1): for the collector, and when another instance has died. */
import { containerLogLink } from "../kuberuntime/sandbox-config.ts";
import { LABELS } from "../labels.ts";
import type { NodePorts } from "../node-ports.ts";
import { unlessGone } from "./kill.ts";

/** With its logs. */
export async function removeContainer({ cri, files }: Pick<NodePorts, "cri" | "files">, id: string): Promise<void> {
  const status = await cri.containerStatus(id).catch(unlessGone);
  if (status === undefined) return;
  if (status.state === "CONTAINER_UNKNOWN") await cri.stopContainer(id, 0).catch(unlessGone);
  const { [LABELS.podName]: name = "", [LABELS.podNamespace]: namespace = "", [LABELS.containerName]: container = "" } = status.labels;
  await files.removeContainerLogs(status.logPath, containerLogLink({ name, namespace }, container, id));
  await cri.removeContainer(id).catch(unlessGone);
}
