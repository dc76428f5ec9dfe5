/** What a pod needs to be read before it can start (node-agent §5.1 step 6). */
import { ephemeralContainersOf, initContainersOf } from "../pod.ts";
import type { ContainerSpec, NodePod, VolumeSpec } from "../pod.ts";

/** Names in the pod's own namespace, each once, sorted. Optional ones too: they may be there. */
export interface PodReferences {
  readonly configMaps: readonly string[];
  readonly secrets: readonly string[];
}

/** Empty and absent names refer to nothing; the API server lets some of them through. */
interface Names {
  readonly configMaps: readonly (string | undefined)[];
  readonly secrets: readonly (string | undefined)[];
}

/**
 * The ConfigMaps and Secrets that environment, volumes and image pulls of the pod name.
 *
 * Source: pkg/api/v1/pod/util.go VisitPodConfigmapNames, VisitPodSecretNames.
 * Differs from upstream: secrets of volume kinds that the agent does not mount (§10) are left out.
 */
export function podReferences(pod: NodePod): PodReferences {
  const containers = [...initContainersOf(pod), ...pod.spec.containers, ...ephemeralContainersOf(pod)];
  const all: readonly Names[] = [
    { configMaps: [], secrets: (pod.spec.imagePullSecrets ?? []).map(({ name }) => name) },
    ...containers.map(namesOfEnvironment),
    ...(pod.spec.volumes ?? []).map(namesOfVolume),
  ];
  return { configMaps: distinct(all.flatMap(({ configMaps }) => configMaps)), secrets: distinct(all.flatMap(({ secrets }) => secrets)) };
}

function namesOfEnvironment({ env = [], envFrom = [] }: ContainerSpec): Names {
  return {
    configMaps: [...envFrom.map(({ configMapRef }) => configMapRef?.name), ...env.map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name)],
    secrets: [...envFrom.map(({ secretRef }) => secretRef?.name), ...env.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name)],
  };
}

function namesOfVolume({ configMap, projected, secret }: VolumeSpec): Names {
  const sources = projected?.sources ?? [];
  return {
    configMaps: [configMap?.name, ...sources.map((source) => source.configMap?.name)],
    secrets: [secret?.secretName, ...sources.map((source) => source.secret?.name)],
  };
}

function distinct(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.flatMap((name) => name || []))].toSorted();
}
