/** Which probes a pod has, and the key of each in NodeStore (node-agent §11, §18.4). */
import type { ProbeKind } from "../../ports/node-store.ts";
import { type ContainerSpec, initContainersOf, isSidecar, type NodePod, type ProbeSpec } from "../pod.ts";

export interface ProbeId {
  readonly uid: string;
  readonly container: string;
  readonly kind: ProbeKind;
}

export interface PodProbe {
  readonly container: string;
  readonly kind: ProbeKind;
  readonly spec: ProbeSpec;
}

/** `<uid>/<container>/<kind>`. Neither a UID nor a container's name has a slash. */
export function probeKey(uid: string, container: string, kind: ProbeKind): string {
  return `${uid}/${container}/${kind}`;
}

/** The parts of a `probeKey`. */
export function splitProbeKey(key: string): ProbeId {
  const [uid = "", container = "", kind] = key.split("/");
  return { uid, container, kind: kind as ProbeKind }; // only probeKey makes keys
}

/** Of regular containers and sidecars; other init containers and ephemeral ones have none. Source: prober_manager.go AddPod. */
export function probesOf(pod: NodePod): readonly PodProbe[] {
  return [...pod.spec.containers, ...initContainersOf(pod).filter(isSidecar)].flatMap(probesOfContainer);
}

function probesOfContainer({ name, startupProbe, readinessProbe, livenessProbe }: ContainerSpec): readonly PodProbe[] {
  return [
    ...(startupProbe ? [{ container: name, kind: "startup" as const, spec: startupProbe }] : []),
    ...(readinessProbe ? [{ container: name, kind: "readiness" as const, spec: readinessProbe }] : []),
    ...(livenessProbe ? [{ container: name, kind: "liveness" as const, spec: livenessProbe }] : []),
  ];
}
