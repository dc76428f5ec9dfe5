/** Container configuration and mounts (node-agent §7.1, §7.3, §7.5). */
import type { ContainerConfig, Image, Mount } from "../../ports/cri-types.ts";
import { containerHash, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { ContainerConfigError, type EnvironmentVariable } from "./environment.ts";
import { expand } from "../types/expand.ts";
import { ANNOTATIONS, LABELS } from "../types/labels.ts";
import type { NodeOptions, NodeResources } from "../types/node-options.ts";
import { containerResources } from "./resources.ts";
import { podIdentity } from "./sandbox-config.ts";
import { containerSecurity } from "./security-context.ts";

export interface ContainerConfigInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly restartCount: number;
  /** Reference of the pulled image, as the runtime returned it for `container.image`. */
  readonly image: Image;
  readonly envs: readonly EnvironmentVariable[];
  readonly mounts: readonly Mount[];
  readonly options: NodeOptions;
  readonly resources: NodeResources;
  /** The container whose process namespace an ephemeral container joins. */
  readonly targetContainerId?: string;
}

/** The API's default, for manifests that do not set the field. */
const TERMINATION_MESSAGE_POLICY = "File";

/**
 * Builds the configuration for CreateContainer; expands `$(NAME)` in command and args. If command and args are absent, those of the image
 * apply. @throws {ContainerConfigError} for a user that the spec forbids. Source: pkg/kubelet/kuberuntime/kuberuntime_container.go
 * generateContainerConfig.
 */
export function containerConfig(input: ContainerConfigInput): ContainerConfig {
  const { container, envs, image, mounts, pod, resources, restartCount } = input;
  const values = new Map(envs.map(({ key, value }) => [key, value]));
  const expanded = (texts: readonly string[]): readonly string[] =>
    texts.map((text) =>
      expand(text, (name) => {
        const value = values.get(name);
        return value === undefined ? undefined : asText(name, value);
      }),
    );
  return {
    metadata: { name: container.name, attempt: restartCount },
    image: { image: image.id, ...(container.image !== undefined && { userSpecifiedImage: container.image }) },
    command: expanded(container.command ?? []),
    args: expanded(container.args ?? []),
    ...(container.workingDir !== undefined && { workingDir: container.workingDir }),
    envs,
    mounts,
    labels: { ...podIdentity(pod), [LABELS.containerName]: container.name },
    annotations: containerAnnotations(pod, container, restartCount),
    logPath: `${container.name}/${restartCount}.log`,
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    linux: { resources: containerResources(pod, container, resources), securityContext: containerSecurity(input) },
  };
}

/** Apart from environment values, CRI strings and paths cannot contain arbitrary bytes. @throws {ContainerConfigError} */
function asText(name: string, value: string): string {
  if (!value.isWellFormed()) throw new ContainerConfigError(`the value of variable ${name} is not UTF-8 and cannot be expanded`);
  return value;
}

/**
 * Annotations with which the agent can report and stop the container without the pod's spec. Source: pkg/kubelet/kuberuntime/labels.go
 * newContainerAnnotations.
 */
function containerAnnotations(
  { metadata, spec }: NodePod,
  container: ContainerSpec,
  restartCount: number,
): Readonly<Record<string, string>> {
  const { deletionGracePeriodSeconds } = metadata;
  const { terminationGracePeriodSeconds } = spec;
  const preStop = container.lifecycle?.preStop;
  return {
    [ANNOTATIONS.hash]: containerHash(container),
    [ANNOTATIONS.restartCount]: String(restartCount),
    [ANNOTATIONS.terminationMessagePath]: container.terminationMessagePath ?? TERMINATION_MESSAGE_PATH,
    [ANNOTATIONS.terminationMessagePolicy]: container.terminationMessagePolicy ?? TERMINATION_MESSAGE_POLICY,
    ...((container.ports ?? []).length > 0 && { [ANNOTATIONS.ports]: JSON.stringify(container.ports) }),
    ...(preStop !== undefined && { [ANNOTATIONS.preStopHandler]: JSON.stringify(preStop) }),
    ...(deletionGracePeriodSeconds !== undefined && { [ANNOTATIONS.podDeletionGracePeriod]: String(deletionGracePeriodSeconds) }),
    ...(terminationGracePeriodSeconds !== undefined && { [ANNOTATIONS.podTerminationGracePeriod]: String(terminationGracePeriodSeconds) }),
  };
}

export interface MountInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  /** Host paths by volume name. */
  readonly volumePaths: Readonly<Record<string, string>>;
  readonly env: readonly EnvironmentVariable[];
  /** Host path of the managed hosts file. */
  readonly hostsFile?: string;
  /** Host path of the new termination log. */
  readonly terminationLog?: string;
}

export interface MountPlan {
  readonly mounts: readonly PlannedMount[];
}

/** With `subPath`, the caller must mount the result of NodeFiles.makeSubPath instead of `hostPath`. */
export type PlannedMount = Mount & { readonly subPath?: { readonly volumePath: string; readonly path: string } };

const HOSTS_PATH = "/etc/hosts";
/** The API's default, for manifests that do not set the field. */
const TERMINATION_MESSAGE_PATH = "/dev/termination-log";

/** Volume types that are always mounted read-only. Source: pkg/volume/{configmap,secret,downwardapi,projected} GetAttributes. */
const READ_ONLY_VOLUMES = ["configMap", "secret", "downwardAPI", "projected"] as const;

const PROPAGATIONS: Readonly<Record<string, Mount["propagation"]>> = {
  None: "PROPAGATION_PRIVATE",
  HostToContainer: "PROPAGATION_HOST_TO_CONTAINER",
  Bidirectional: "PROPAGATION_BIDIRECTIONAL",
};

/**
 * Returns the mounts in spec order, then hosts file and termination log, if any. @throws {ContainerConfigError} for an unmounted volume, or
 * an invalid subPath. Source: pkg/kubelet/kubelet_pods.go makeMounts; pkg/kubelet/kuberuntime/kuberuntime_container.go makeMounts.
 */
export function planMounts(input: MountInput): MountPlan {
  const { container, hostsFile, terminationLog } = input;
  return {
    mounts: [
      ...(container.volumeMounts ?? []).map((mount) => volumeMount(input, mount)),
      ...(hostsFile === undefined ? [] : [{ containerPath: HOSTS_PATH, hostPath: hostsFile }]),
      ...(terminationLog === undefined
        ? []
        : [{ containerPath: container.terminationMessagePath ?? TERMINATION_MESSAGE_PATH, hostPath: terminationLog }]),
    ],
  };
}

/**
 * Whether the agent manages the container's /etc/hosts: there is content for the file, and the container mounts nothing at that path.
 * Source: pkg/kubelet/kubelet_pods.go shouldMountHostsFile.
 */
export function isHostsFileManaged(pod: NodePod, container: ContainerSpec, podIps: readonly string[]): boolean {
  const known = podIps.length > 0 || pod.spec.hostNetwork === true;
  return known && !(container.volumeMounts ?? []).some(({ mountPath }) => mountPath === HOSTS_PATH);
}

type VolumeMount = NonNullable<ContainerSpec["volumeMounts"]>[number];

function volumeMount({ container, env, pod, volumePaths }: MountInput, mount: VolumeMount): PlannedMount {
  const volumePath = Object.hasOwn(volumePaths, mount.name) ? volumePaths[mount.name] : undefined;
  if (volumePath === undefined)
    throw new ContainerConfigError(`cannot find volume "${mount.name}" to mount into container "${container.name}"`);
  const subPath = subPathOf(mount, env);
  return {
    containerPath: mount.mountPath.startsWith("/") ? mount.mountPath : `/${mount.mountPath}`,
    hostPath: volumePath,
    readonly: mount.readOnly === true || isReadOnly(pod, mount.name),
    propagation: propagationOf(mount),
    ...(subPath !== "" && { subPath: { volumePath, path: subPath } }),
  };
}

function isReadOnly(pod: NodePod, volumeName: string): boolean {
  const volume = (pod.spec.volumes ?? []).find(({ name }) => name === volumeName);
  return volume !== undefined && READ_ONLY_VOLUMES.some((kind) => volume[kind] !== undefined);
}

function propagationOf({ mountPropagation = "None" }: VolumeMount): NonNullable<Mount["propagation"]> {
  const propagation = Object.hasOwn(PROPAGATIONS, mountPropagation) ? PROPAGATIONS[mountPropagation] : undefined;
  if (propagation === undefined) throw new ContainerConfigError(`invalid MountPropagation mode: "${mountPropagation}"`);
  return propagation;
}

/** A relative path without `..`; empty to mount the whole volume. makeSubPath rejects links that lead out of the volume. */
function subPathOf({ subPath = "", subPathExpr = "" }: VolumeMount, env: readonly EnvironmentVariable[]): string {
  const path = subPathExpr === "" ? subPath : expandedSubPath(subPathExpr, env);
  if (path.startsWith("/")) throw new ContainerConfigError(`error SubPath \`${path}\` must not be an absolute path`);
  if (path.split("/").includes("..")) throw new ContainerConfigError(`unable to provision SubPath \`${path}\`: must not contain '..'`);
  return path;
}

/** Source: pkg/kubelet/container/helpers.go ExpandContainerVolumeMounts. */
function expandedSubPath(subPathExpr: string, env: readonly EnvironmentVariable[]): string {
  const values = new Map(env.map(({ key, value }) => [key, value]));
  const missing = new Set<string>();
  const path = expand(subPathExpr, (name) => {
    const value = values.get(name) ?? "";
    if (value === "") missing.add(name);
    return asText(name, value);
  });
  if (missing.size > 0) throw new ContainerConfigError(`missing value for ${[...missing].toSorted().join(", ")}`);
  return path;
}
