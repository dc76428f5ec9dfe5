/** A source has said what all its pods are. */
import type { PodSource } from "../../../shared/kubelet/labels.ts";
import type { NodePod } from "../../../shared/kubelet/pod.ts";
import type { PodSources } from "../../../shared/kubelet/turns/pod-sources.ts";

export function createPodSource(sources: PodSources): (source: PodSource, pods: readonly NodePod[]) => Promise<void> {
  return async (source, pods) => await sources.deliver(source, { op: "SET", pods });
}
