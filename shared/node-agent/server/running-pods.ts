/**
 * Generates `/runningpods/`: the pods that the runtime is running, with the runtime's data only (node-agent §15).
 *
 * Source: pkg/kubelet/kubelet_getters.go GetRunningPods; pkg/kubelet/container/runtime.go ToAPIPod; kuberuntime_manager.go GetPods.
 */
import { LABELS } from "../kubelet/types/labels.ts";
import type { Cri } from "../ports/cri.ts";

interface RunningPod {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly spec: { readonly containers: { readonly name: string; readonly image: string; readonly resources: object }[] | null };
  readonly status: object;
}

/** Returns a PodList as JSON. Skips sandboxes and containers without the agent's labels. */
export async function runningPods(cri: Pick<Cri, "listContainers" | "listPodSandbox">): Promise<string> {
  const [sandboxes, containers] = await Promise.all([
    cri.listPodSandbox({ state: "SANDBOX_READY" }),
    cri.listContainers({ state: "CONTAINER_RUNNING" }),
  ]);
  const pods = new Map<string, RunningPod>();
  const podOf = (labels: Readonly<Record<string, string>>): RunningPod | undefined => {
    const { [LABELS.podUid]: uid, [LABELS.podName]: name, [LABELS.podNamespace]: namespace } = labels;
    if (uid === undefined || name === undefined || namespace === undefined) return undefined;
    const pod = pods.get(uid) ?? { metadata: { name, namespace, uid }, spec: { containers: null }, status: {} };
    pods.set(uid, pod);
    return pod;
  };
  for (const { labels } of sandboxes) podOf(labels);
  for (const { labels, image } of containers) {
    const [pod, name] = [podOf(labels), labels[LABELS.containerName]];
    if (pod === undefined || name === undefined) continue;
    const running = [...(pod.spec.containers ?? []), { name, image, resources: {} }];
    pods.set(pod.metadata.uid, { ...pod, spec: { containers: running } });
  }
  return JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items: [...pods.values()] });
}
