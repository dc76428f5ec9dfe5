/** Lists and watches resources so that the transport, which records responses, sees every event. Stores no objects. */
import type { EvidenceResource, Resource } from "@deltaloop/kube/objects";
import { createSystemRandom } from "@deltaloop/base/system";
import { CACHED_RESOURCES, EVIDENCE_RESOURCES, messageOf } from "@deltaloop/kube/objects";
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener } from "@deltaloop/kube/list-watch";
import type { RecordingWatch } from "@deltaloop/replay/capture";
import type { Clock, Log } from "@deltaloop/base";
import { isForbidden, isNotFound } from "@deltaloop/kube/client";
import type { KubeWatch } from "@deltaloop/kube/client";

const DISCARDS: Listener = {
  list: () => ({ page: () => undefined, change: () => undefined, listed: () => undefined }),
  change: () => undefined,
};

interface WatchOptions {
  readonly clock: Clock;
  readonly log: Log;
}

/** Lists and watches all cached resources. */
export async function watchAll(kube: KubeWatch<Resource>, options: WatchOptions, ends: AbortSignal): Promise<void> {
  const random = createSystemRandom();
  await Promise.all(CACHED_RESOURCES.map((resource) => new ListWatch({ kube, resource, random, ...options }, DISCARDS).run(ends)));
}

/**
 * Lists and watches the other resources that findings use, where the user has the permissions; a resource that may not be read is reported once.
 */
export async function watchEvidence(kube: RecordingWatch, { clock, log }: WatchOptions, ends: AbortSignal): Promise<void> {
  const watch = async (resource: EvidenceResource): Promise<void> => {
    const options = { kube, resource, clock, random: createSystemRandom(), log };
    try {
      await kube.newestVersion(resource, {}, ends);
    } catch (error) {
      if (isForbidden(error) || isNotFound(error)) {
        log.warn(`${resource} are not captured, so explain does not see them: ${messageOf(error)}`);
        return kube.denied(resource);
      }
    }
    if (!ends.aborted) await new ListWatch(options, DISCARDS).run(ends);
  };
  await Promise.all(EVIDENCE_RESOURCES.map(watch));
}
