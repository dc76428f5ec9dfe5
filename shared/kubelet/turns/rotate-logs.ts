/** Each ten seconds: logs that have grown too large step aside (node-agent §7.8). */
import type { NodePorts } from "../node-ports.ts";

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go ContainerLogMaxSize, ContainerLogMaxFiles. */
const LOG_LIMITS = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

/** One log that cannot be rotated is named and does not keep the others. */
export async function rotateLogs({ cri, files, clock, log }: NodePorts): Promise<void> {
  for (const { id } of await cri.listContainers({ state: "CONTAINER_RUNNING" })) {
    try {
      const { logPath } = await cri.containerStatus(id);
      const rotated = await files.rotateLog(logPath, { ...LOG_LIMITS, nowMs: clock.now() });
      if (rotated === undefined) continue;
      await cri.reopenContainerLog(id).catch(async (error: unknown) => {
        await rotated.undo();
        throw error;
      });
    } catch (error) {
      log.warn("a container's log was not rotated", { container: id, error: String(error) });
    }
  }
}
