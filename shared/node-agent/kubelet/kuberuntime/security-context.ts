/** Builds the security contexts of sandboxes and containers (node-agent §7.2, §7.7). */
import type {
  Image,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  NamespaceOption,
  SecurityProfile,
} from "../../ports/cri-types.ts";
import { ContainerConfigError } from "./environment.ts";
import type { NodeOptions } from "../types/node-options.ts";
import { ephemeralContainersOf, initContainersOf, type ContainerSpec, type NodePod, type PodSpec } from "../types/pod.ts";

/** Paths that are masked or read-only with `procMount: Default`. Source: pkg/securitycontext/util.go. */
const MASKED_PATHS = [
  "/proc/asound",
  "/proc/acpi",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/sys/firmware",
  "/sys/devices/virtual/powercap",
] as const;
const READONLY_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"] as const;

/** User id for an image that sets no user. */
const ROOT_UID = 0;

export interface ContainerSecurityInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly image: Image;
  readonly options: NodeOptions;
  /** The container whose process namespace an ephemeral container joins. */
  readonly targetContainerId?: string;
}

/**
 * The container's values override the pod's, which override the image's. @throws {ContainerConfigError} if runAsNonRoot is violated or
 * cannot be verified, or if a seccomp profile has no file. Source: pkg/kubelet/kuberuntime/security_context.go
 * determineEffectiveSecurityContext; pkg/securitycontext/util.go. Differs from upstream: AppArmor always uses the runtime's default,
 * because pods with other profiles stay Pending (unsupported-features.ts).
 */
export function containerSecurity(input: ContainerSecurityInput): LinuxContainerSecurityContext {
  const { container, image, pod, targetContainerId } = input;
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  const runAsUser = own.runAsUser ?? ofPod.runAsUser;
  const runAsGroup = own.runAsGroup ?? ofPod.runAsGroup;
  verifyRunAsNonRoot(input, runAsUser);
  const { add: addCapabilities = [], drop: dropCapabilities = [] } = own.capabilities ?? {};
  const seLinuxOptions = own.seLinuxOptions ?? ofPod.seLinuxOptions;
  const unmasked = own.procMount === "Unmasked";
  return {
    ...(own.capabilities !== undefined && { capabilities: { addCapabilities, dropCapabilities } }),
    privileged: own.privileged === true,
    namespaceOptions: withTarget(namespaceOptions(pod.spec), targetContainerId),
    ...(seLinuxOptions !== undefined && { selinuxOptions: seLinuxOptions }),
    ...(runAsUser === undefined ? userOf(image) : { runAsUser: { value: runAsUser } }),
    ...(runAsGroup !== undefined && { runAsGroup: { value: runAsGroup } }),
    readonlyRootfs: own.readOnlyRootFilesystem === true,
    supplementalGroups: supplementalGroups(pod.spec),
    noNewPrivs: own.allowPrivilegeEscalation === false,
    maskedPaths: unmasked ? [] : MASKED_PATHS,
    readonlyPaths: unmasked ? [] : READONLY_PATHS,
    seccomp: seccompProfile(own.seccompProfile ?? ofPod.seccompProfile, input.options),
  };
}

/**
 * The sandbox uses the pod's context, but always the runtime's default seccomp profile. Source:
 * pkg/kubelet/kuberuntime/kuberuntime_sandbox.go generatePodSandboxLinuxConfig.
 */
export function sandboxSecurity(pod: NodePod): LinuxSandboxSecurityContext {
  const { runAsGroup, runAsUser, seLinuxOptions } = pod.spec.securityContext ?? {};
  const containers = [...initContainersOf(pod), ...pod.spec.containers, ...ephemeralContainersOf(pod)];
  return {
    namespaceOptions: namespaceOptions(pod.spec),
    ...(seLinuxOptions !== undefined && { selinuxOptions: seLinuxOptions }),
    ...(runAsUser !== undefined && { runAsUser: { value: runAsUser } }),
    ...(runAsGroup !== undefined && { runAsGroup: { value: runAsGroup } }),
    supplementalGroups: supplementalGroups(pod.spec),
    privileged: containers.some(({ securityContext }) => securityContext?.privileged === true),
    seccomp: { profileType: "RuntimeDefault" },
  };
}

/** Source: pkg/kubelet/kuberuntime/util/util.go NamespacesForPod. */
function namespaceOptions({ hostIPC, hostNetwork, hostPID, shareProcessNamespace }: PodSpec): NamespaceOption {
  return {
    network: hostNetwork === true ? "NODE" : "POD",
    ipc: hostIPC === true ? "NODE" : "POD",
    pid: hostPID === true ? "NODE" : shareProcessNamespace === true ? "POD" : "CONTAINER",
  };
}

/** A shared process namespace already includes the target, so only a private one is replaced. */
function withTarget(namespaces: NamespaceOption, targetId: string | undefined): NamespaceOption {
  return targetId === undefined || namespaces.pid !== "CONTAINER" ? namespaces : { ...namespaces, pid: "TARGET", targetId };
}

function supplementalGroups({ securityContext: { fsGroup, supplementalGroups: groups = [] } = {} }: PodSpec): readonly number[] {
  return [...(fsGroup === undefined ? [] : [fsGroup]), ...groups];
}

function userOf({ uid, username }: Image): Pick<LinuxContainerSecurityContext, "runAsUser" | "runAsUsername"> {
  if (uid === undefined && username !== "") return { runAsUsername: username };
  return { runAsUser: { value: uid ?? ROOT_UID } };
}

/** Source: pkg/kubelet/kuberuntime/security_context_others.go verifyRunAsNonRoot. */
function verifyRunAsNonRoot({ container, image, pod }: ContainerSecurityInput, runAsUser: number | undefined): void {
  if ((container.securityContext?.runAsNonRoot ?? pod.spec.securityContext?.runAsNonRoot) !== true) return;
  const problem = rootProblem(runAsUser, image);
  if (problem === undefined) return;
  const { name, namespace, uid } = pod.metadata;
  throw new ContainerConfigError(`${problem} (pod: "${name}_${namespace}(${uid})", container: ${container.name})`);
}

function rootProblem(runAsUser: number | undefined, image: Image): string | undefined {
  if (runAsUser !== undefined) return runAsUser === ROOT_UID ? "container's runAsUser breaks non-root policy" : undefined;
  const user = userOf(image);
  if (user.runAsUsername !== undefined)
    return `container has runAsNonRoot and image has non-numeric user (${user.runAsUsername}), cannot verify user is non-root`;
  return user.runAsUser?.value === ROOT_UID ? "container has runAsNonRoot and image will run as root" : undefined;
}

type SeccompProfile = NonNullable<NonNullable<ContainerSpec["securityContext"]>["seccompProfile"]>;

/** Paths of Localhost profiles are relative to `<root>/seccomp`. Source: pkg/kubelet/kuberuntime/helpers.go fieldSeccompProfile. */
function seccompProfile(profile: SeccompProfile | undefined, { rootDir }: NodeOptions): SecurityProfile {
  if (profile?.type === "RuntimeDefault") return { profileType: "RuntimeDefault" };
  if (profile?.type !== "Localhost") return { profileType: "Unconfined" };
  if (!profile.localhostProfile) throw new ContainerConfigError("localhostProfile must be set if seccompProfile type is Localhost.");
  return { profileType: "Localhost", localhostRef: `${rootDir}/seccomp/${profile.localhostProfile}` };
}
