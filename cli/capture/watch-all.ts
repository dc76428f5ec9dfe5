/** Lists and watches all cached resources for a recorder in the transport, without storing objects. */
import type { Resource } from "@deltaloop/kube/objects";
import { createSystemRandom } from "@deltaloop/base/system";
import type { Digester } from "@deltaloop/kube/pod-template";
import { CACHED_RESOURCES, EVIDENCE_RESOURCES, messageOf } from "@deltaloop/kube/objects";
import type { EvidenceResource } from "@deltaloop/kube/objects";
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener } from "@deltaloop/kube/list-watch";
import type { RecordingWatch } from "@deltaloop/replay/capture";
import type { DeltaSink } from "@deltaloop/controllers/cache";
import { ResourceStream } from "@deltaloop/controllers/cache";
import type { Clock, Log } from "@deltaloop/base";
import { isForbidden, isNotFound } from "@deltaloop/kube/client";
import type { KubeWatch } from "@deltaloop/kube/client";

const NOWHERE: DeltaSink = {
  live: () => undefined,
  listed: () => undefined,
  manifest: () => undefined,
  watermark: () => undefined,
  room: () => Promise.resolve(),
};

export async function watchAll(
  kube: KubeWatch<Resource>,
  { clock, digester, log }: { readonly clock: Clock; readonly digester: Digester; readonly log: Log },
  ends: AbortSignal,
): Promise<void> {
  const ports = {
    ...{ kube, clock, random: createSystemRandom(), digester, log },
    quarantine: () => Promise.resolve(),
  };
  const openGeneration = (): Promise<{ generation: number; floor: string }> => Promise.resolve({ generation: 1, floor: "0" });
  const streams = CACHED_RESOURCES.map(
    (resource) => new ResourceStream({ ...ports, feeds: [{ view: resource, sink: NOWHERE, openGeneration }] }, resource, undefined),
  );
  await Promise.all(streams.map((stream) => stream.run(ends)));
}

const NOBODY: Listener = {
  list: () => ({ page: () => undefined, change: () => undefined, listed: () => undefined }),
  change: () => undefined,
};

/**
 * Lists and watches the other resources that findings use, where the user has the rights; a resource that may not be read is reported once.
 */
export async function watchEvidence(
  kube: RecordingWatch,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  ends: AbortSignal,
): Promise<void> {
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
    if (!ends.aborted) await new ListWatch(options, NOBODY).run(ends);
  };
  await Promise.all(EVIDENCE_RESOURCES.map(watch));
}
