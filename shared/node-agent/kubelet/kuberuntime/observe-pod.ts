import type { Container, ContainerStatus } from "../../ports/cri-types.ts";
import type { PodAllocation, Restarts } from "../../ports/node-store.ts";
import { ANNOTATIONS, LABELS } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { observedContainer, observedPod, observedSandbox, type ObservedContainer, type ObservedPod } from "../types/observed-pod.ts";

/** Limits of a termination message. Source: pkg/kubelet/container/runtime.go. */
const TERMINATION_MESSAGE_BYTES_MAX = 4_096;
const LOG_FALL_BACK = { linesMax: 80, bytesMax: 2_048 };

export interface PodIdentity {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
}

type ObservePorts = Pick<NodePorts, "cri" | "known" | "files" | "store">;

/**
 * Reads one pod from the runtime (node-agent §6.1). States are current; statuses may be cached (KN1 to KN3). Omits sandboxes and
 * containers that are removed between the list and the status call.
 */
export async function observePod(ports: ObservePorts, pod: PodIdentity): Promise<ObservedPod> {
  const { cri, known, store } = ports;
  const [restarts = {}, allocation] = await Promise.all([store.read("restarts", pod.uid), store.read("allocations", pod.uid)]);
  const filter = { labelSelector: { [LABELS.podUid]: pod.uid } };
  const [sandboxes, containers] = await Promise.all([cri.listPodSandbox(filter), cri.listContainers(filter)]);
  const [sandboxStatuses, observed] = await Promise.all([
    Promise.all(sandboxes.map((listed) => known.sandbox(listed))),
    Promise.all(
      containers
        .filter(({ labels }) => labels[LABELS.containerName] !== undefined)
        .map((one) => observeContainer(ports, one, { restarts, allocation })),
    ),
  ]);
  return observedPod(
    pod,
    sandboxStatuses.flatMap((status) => (status === undefined ? [] : [observedSandbox(status)])),
    observed.flatMap((container) => (container === undefined ? [] : [container])),
  );
}

async function observeContainer(
  { known, files }: Pick<NodePorts, "known" | "files">,
  listed: Container,
  recorded: { readonly restarts: Restarts; readonly allocation: PodAllocation | undefined },
): Promise<ObservedContainer | undefined> {
  const status = await known.container(listed);
  return status && observedContainer(listed, status, { terminationMessage: await terminationMessage(files, status), ...recorded });
}

/** Returns the content of the termination log, or the end of the container log after a failure with FallbackToLogsOnError. */
async function terminationMessage(files: NodePorts["files"], status: ContainerStatus): Promise<string> {
  if (status.state !== "CONTAINER_EXITED") return "";
  const path = status.annotations[ANNOTATIONS.terminationMessagePath];
  const mount = status.mounts.find(({ containerPath }) => containerPath === path);
  const written = mount === undefined ? "" : ((await files.readTerminationLog(mount.hostPath, TERMINATION_MESSAGE_BYTES_MAX)) ?? "");
  const fallsBack =
    status.annotations[ANNOTATIONS.terminationMessagePolicy] === "FallbackToLogsOnError" &&
    status.exitCode !== 0 &&
    status.reason !== "ContainerCannotRun";
  return written === "" && fallsBack ? await files.tailLog(status.logPath, LOG_FALL_BACK) : written;
}
