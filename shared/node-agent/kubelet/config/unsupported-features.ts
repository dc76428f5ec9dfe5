/** Features that this agent does not support. A pod that uses one of them stays Pending (node-agent §0). */
import { ephemeralContainersOf, initContainersOf, type ContainerSpec, type NodePod, type VolumeSpec } from "../types/pod.ts";

/** The legacy annotation for AppArmor profiles. The API server converts it to the field, but not for static pods. */
const APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/";

/** Features by path below the object; each function returns whether the object uses the feature. */
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
  // The only other action restarts all containers in place.
  restartPolicyRules: ({ restartPolicyRules = [] }) => restartPolicyRules.some(({ action }) => action !== "Restart"),
  "securityContext.appArmorProfile": ({ securityContext }) => isOtherAppArmorProfile(securityContext?.appArmorProfile?.type),
  volumeDevices: ({ volumeDevices }) => isFilled(volumeDevices),
};

type EnvVar = NonNullable<ContainerSpec["env"]>[number];
type VolumeMount = NonNullable<ContainerSpec["volumeMounts"]>[number];

const ENV_FEATURES: Features<EnvVar> = { "valueFrom.fileKeyRef": ({ valueFrom }) => valueFrom?.fileKeyRef !== undefined };
const MOUNT_FEATURES: Features<VolumeMount & { readonly bindMountOptions?: readonly string[] }> = {
  recursiveReadOnly: ({ recursiveReadOnly }) => recursiveReadOnly === "Enabled",
  bindMountOptions: ({ bindMountOptions }) => isFilled(bindMountOptions),
};
const VOLUME_FEATURES: Features<VolumeSpec> = { image: ({ image }) => image !== undefined };

/** Alpha fields of Kubernetes 1.37 that client-node does not have yet; their feature gates are off by default. */
interface AlphaProbe {
  readonly httpGet?: { readonly protocol?: string };
  readonly grpc?: { readonly mode?: string };
}
const PROBE_FEATURES: Features<AlphaProbe> = {
  "httpGet.protocol": ({ httpGet }) => httpGet?.protocol === "HTTP2",
  "grpc.mode": ({ grpc }) => grpc?.mode === "TLS",
};
const PROBES = ["startupProbe", "readinessProbe", "livenessProbe"] as const;
/** Volume types whose files may have an owner in the spec. */
const USER_VOLUMES = ["secret", "configMap", "downwardAPI", "projected"] as const;

/**
 * Returns the path of the first unsupported field, for the Event and the status.
 *
 *     spec.containers[0].restartPolicyRules        spec.initContainers[1].env[0].valueFrom.fileKeyRef
 *
 * Volume preparation detects unsupported volumes. In-place resize is not listed: it is requested only for running pods.
 */
export function unsupportedFeature(pod: NodePod): string | undefined {
  const { spec } = pod;
  return first([
    () => usedFeature("spec", spec, POD_FEATURES),
    () => appArmorAnnotation(pod),
    () => inList("spec.initContainers", initContainersOf(pod), unsupportedInContainer),
    () => inList("spec.containers", spec.containers, unsupportedInContainer),
    () => inList("spec.ephemeralContainers", ephemeralContainersOf(pod), unsupportedInContainer),
    () => inList("spec.volumes", spec.volumes ?? [], unsupportedInVolume),
  ]);
}

function unsupportedInVolume(path: string, volume: VolumeSpec): string | undefined {
  const { mode } = (volume.emptyDir ?? {}) as { readonly mode?: number }; // see AlphaProbe
  return first([
    () => usedFeature(path, volume, VOLUME_FEATURES),
    () => (mode === undefined ? undefined : `${path}.emptyDir.mode`),
    ...USER_VOLUMES.map((type) => () => userField(`${path}.${type}`, volume[type])),
  ]);
}

/** Returns the first field below `path`, at any depth, that sets the owner of files. */
function userField(path: string, value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const children = Object.entries(value).map(
    ([name, child]) => [Array.isArray(value) ? `${path}[${name}]` : `${path}.${name}`, child] as const,
  );
  const isOwner = ([at, child]: readonly [string, unknown]): boolean => typeof child === "number" && /\.(?:user|defaultUser)$/u.test(at);
  return (
    children.find(isOwner)?.[0] ??
    first(
      children.map(
        ([at, child]) =>
          () =>
            userField(at, child),
      ),
    )
  );
}

function unsupportedInContainer(path: string, container: ContainerSpec): string | undefined {
  return first([
    () => usedFeature(path, container, CONTAINER_FEATURES),
    () => inList(`${path}.env`, container.env ?? [], (at, variable) => usedFeature(at, variable, ENV_FEATURES)),
    () => inList(`${path}.volumeMounts`, container.volumeMounts ?? [], (at, mount) => usedFeature(at, mount, MOUNT_FEATURES)),
    ...PROBES.map((kind) => () => usedFeature(`${path}.${kind}`, (container[kind] ?? {}) as AlphaProbe, PROBE_FEATURES)),
  ]);
}

function usedFeature<T>(path: string, object: T, features: Features<T>): string | undefined {
  const field = Object.entries(features).find(([, isUsed]) => isUsed(object))?.[0];
  return field === undefined ? undefined : `${path}.${field}`;
}

function inList<T>(path: string, items: readonly T[], check: (path: string, item: T) => string | undefined): string | undefined {
  return first(items.map((item, index) => () => check(`${path}[${index}]`, item)));
}

function first(checks: readonly (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const found = check();
    if (found !== undefined) return found;
  }
  return undefined;
}

function appArmorAnnotation({ metadata: { annotations = {} } }: NodePod): string | undefined {
  const found = Object.entries(annotations).find(([name, value]) => name.startsWith(APP_ARMOR_ANNOTATION) && value !== "runtime/default");
  return found && `metadata.annotations['${found[0]}']`;
}

/** RuntimeDefault is equivalent to no profile. */
function isOtherAppArmorProfile(type: string | undefined): boolean {
  return type !== undefined && type !== "RuntimeDefault";
}

function isFilled(value: object | undefined): boolean {
  return value !== undefined && Object.keys(value).length > 0;
}
