/** What the probes of one pod say now, for decisions that must not wait (node-agent §11). */
import type { ProbeKind, ProbeRecord } from "../../ports/node-store.ts";
import type { NodePorts } from "../node-ports.ts";
import type { ProbeAnswer } from "../observed-pod.ts";
import { initialResult, probeKey, probesOf } from "../probe/probe.ts";
import type { NodePod } from "../pod.ts";

export interface PodProbeAnswers {
  readiness(containerId: string): ProbeAnswer;
  liveness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

/**
 * Answers by container id; what was not probed yet has the initial result of its kind, what has no such probe has none.
 * `nameOf` tells which container an id belongs to.
 */
export async function readProbeAnswers(
  { store }: Pick<NodePorts, "store">,
  pod: NodePod,
  nameOf: (containerId: string) => string | undefined,
): Promise<PodProbeAnswers> {
  const records = new Map<string, ProbeRecord | undefined>();
  for (const { container, kind } of probesOf(pod)) {
    const key = probeKey(pod.metadata.uid, container, kind);
    records.set(`${container}/${kind}`, await store.read("probes", key));
  }
  const answer = (kind: ProbeKind, containerId: string): ProbeAnswer => {
    const key = `${nameOf(containerId) ?? ""}/${kind}`;
    if (!records.has(key)) return undefined;
    const record = records.get(key);
    return record?.containerId === containerId && record.result !== undefined ? record.result : initialResult(kind);
  };
  return {
    readiness: (containerId) => answer("readiness", containerId),
    liveness: (containerId) => answer("liveness", containerId),
    startup: (containerId) => answer("startup", containerId),
  };
}
