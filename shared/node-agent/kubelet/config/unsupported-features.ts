/** What this agent cannot do yet: a pod that asks for it waits, rather than run without it (node-agent §0). */
import { ephemeralContainersOf, initContainersOf } from "../types/pod.ts";
import type { ContainerSpec, NodePod, VolumeSpec } from "../types/pod.ts";

/** Kubernetes' annotation of AppArmor profiles, from before there was a field; on pods of manifests nobody turns it into one. */
const APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/";

/** Path below the object it is looked for in → whether it is asked for. */
type Features<T> = Readonly<Record<string, (object: T) => boolean>>;

const POD_FEATURES: Features<NodePod["spec"]> = {
  hostUsers: ({ hostUsers }) => hostUsers === false,
  resourceClaims: ({ resourceClaims = [] }) => resourceClaims.length > 0,
  resources: ({ resources }) => resources !== undefined && Object.values(resources).some(isFilled),
  "securityContext.appArmorProfile": ({ securityContext }) => isOtherAppArmorProfile(securityContext?.appArmorProfile?.type),
  "securityContext.supplementalGroupsPolicy": ({ securityContext }) => securityContext?.supplementalGroupsPolicy === "Strict",
};

const CONTAINER_FEATURES: Features<ContainerSpec> = {
  "lifecycle.stopSignal": ({ lifecycle }) => lifecycle?.stopSignal !== undefined,
  "resources.claims": ({ resources }) => isFilled(resources?.claims),
  restartPolicyRules: ({ restartPolicyRules }) => isFilled(restartPolicyRules),
  "securityContext.appArmorProfile": ({ securityContext }) => isOtherAppArmorProfile(securityContext?.appArmorProfile?.type),
  volumeDevices: ({ volumeDevices }) => isFilled(volumeDevices),
};

type EnvVar = NonNullable<ContainerSpec["env"]>[number];
type VolumeMount = NonNullable<ContainerSpec["volumeMounts"]>[number];

const ENV_FEATURES: Features<EnvVar> = { "valueFrom.fileKeyRef": ({ valueFrom }) => valueFrom?.fileKeyRef !== undefined };
const MOUNT_FEATURES: Features<VolumeMount> = { recursiveReadOnly: ({ recursiveReadOnly }) => recursiveReadOnly === "Enabled" };
const VOLUME_FEATURES: Features<VolumeSpec> = { image: ({ image }) => image !== undefined };

/**
 * The path of the first field that cannot be honoured, for the sentence of event and status; undefined when there is none.
 *
 *     spec.containers[0].restartPolicyRules        spec.initContainers[1].env[0].valueFrom.fileKeyRef
 *
 * Volumes that cannot be mounted are found when they are prepared. In-place resize is missing here: a pod asks for it only once
 * it runs. Upstream has all of this; see the gates of v1.36.
 */
export function unsupportedFeature(pod: NodePod): string | undefined {
  const { spec } = pod;
  return first([
    () => askedFor("spec", spec, POD_FEATURES),
    () => appArmorAnnotation(pod),
    () => inList("spec.initContainers", initContainersOf(pod), unsupportedInContainer),
    () => inList("spec.containers", spec.containers, unsupportedInContainer),
    () => inList("spec.ephemeralContainers", ephemeralContainersOf(pod), unsupportedInContainer),
    () => inList("spec.volumes", spec.volumes ?? [], (path, volume) => askedFor(path, volume, VOLUME_FEATURES)),
  ]);
}

function unsupportedInContainer(path: string, container: ContainerSpec): string | undefined {
  return first([
    () => askedFor(path, container, CONTAINER_FEATURES),
    () => inList(`${path}.env`, container.env ?? [], (at, variable) => askedFor(at, variable, ENV_FEATURES)),
    () => inList(`${path}.volumeMounts`, container.volumeMounts ?? [], (at, mount) => askedFor(at, mount, MOUNT_FEATURES)),
  ]);
}

function askedFor<T>(path: string, object: T, features: Features<T>): string | undefined {
  const field = Object.entries(features).find(([, isAskedFor]) => isAskedFor(object))?.[0];
  return field === undefined ? undefined : `${path}.${field}`;
}

function inList<T>(path: string, items: readonly T[], look: (path: string, item: T) => string | undefined): string | undefined {
  return first(items.map((item, index) => () => look(`${path}[${index}]`, item)));
}

function first(looks: readonly (() => string | undefined)[]): string | undefined {
  for (const look of looks) {
    const found = look();
    if (found !== undefined) return found;
  }
  return undefined;
}

function appArmorAnnotation({ metadata: { annotations = {} } }: NodePod): string | undefined {
  const found = Object.entries(annotations).find(([name, value]) => name.startsWith(APP_ARMOR_ANNOTATION) && value !== "runtime/default");
  return found && `metadata.annotations['${found[0]}']`;
}

/** RuntimeDefault is what the runtime does when it is told nothing. */
function isOtherAppArmorProfile(type: string | undefined): boolean {
  return type !== undefined && type !== "RuntimeDefault";
}

function isFilled(value: object | undefined): boolean {
  return value !== undefined && Object.keys(value).length > 0;
}
