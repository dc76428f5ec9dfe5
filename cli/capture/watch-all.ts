/** Lists and watches all cached resources, for a recorder in the transport; keeps nothing. */
import { createSystemRandom } from "@deltaloop/base/system";
import type { Digester } from "@deltaloop/kube/pod-template";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import type { DeltaSink } from "@deltaloop/controllers/cache";
import { ResourceStream } from "@deltaloop/controllers/cache";
import type { Clock, Log } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";

const NOWHERE: DeltaSink = {
  live: () => undefined,
  listed: () => undefined,
  manifest: () => undefined,
  watermark: () => undefined,
  room: () => Promise.resolve(),
};

export async function watchAll(
  kube: KubeWatch,
  { clock, digester, log }: { readonly clock: Clock; readonly digester: Digester; readonly log: Log },
  ends: AbortSignal,
): Promise<void> {
  const ports = {
    ...{ kube, sink: NOWHERE, clock, random: createSystemRandom(), digester, log },
    openGeneration: () => Promise.resolve({ generation: 1, floor: "0" }),
    quarantine: () => Promise.resolve(),
  };
  await Promise.all(CACHED_RESOURCES.map((resource) => new ResourceStream(ports, resource, undefined).run(ends)));
}
