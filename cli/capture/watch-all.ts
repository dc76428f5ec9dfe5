/** Lists and watches everything that is cached, for whoever stands at the transport; nothing is kept of it. */
import { createSystemRandom } from "../../shared/adapters/system/random.ts";
import type { Digester } from "../../shared/api/digest.ts";
import { CACHED_RESOURCES } from "../../shared/api/resources.ts";
import type { DeltaSink } from "../../shared/cache/delta-sink.ts";
import { ResourceStream } from "../../shared/cache/resource-stream.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { KubeWatch } from "../../shared/ports/kube.ts";
import type { Log } from "../../shared/ports/log.ts";

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
