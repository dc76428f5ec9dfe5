/** Records an upgrade of the cluster in a capture. */
import type { ClusterRelease } from "@deltaloop/controllers/cache";
import { releaseName } from "@deltaloop/kube/releases";
import type { RecordingWatch } from "@deltaloop/replay/capture";

/**
 * Reads the version whenever a stream connects, because an upgrade breaks every stream. A failed read, for example for lack of permissions,
 * records nothing.
 */
export function recordedUpgrades(
  read: () => Promise<string>,
  recorder: Pick<RecordingWatch, "upgraded">,
  first: string | undefined,
): ClusterRelease {
  let last = first;
  return {
    async look() {
      const version = await read().catch(() => undefined);
      if (version === undefined || version === last || releaseName(version) === undefined) return;
      last = version;
      recorder.upgraded(version);
    },
    current: () => undefined,
  };
}
