/** What a container is made of (node-agent §7.1, §7.3). */
import type { ContainerConfig, Image, Mount } from "../../ports/cri-types.ts";
import { containerHash } from "../pod.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";
import type { EnvironmentVariable } from "./environment.ts";
import { expand } from "./expansion.ts";
import { ANNOTATIONS, LABELS } from "../labels.ts";
import type { NodeOptions, NodeResources } from "../node-options.ts";
import { TERMINATION_MESSAGE_PATH } from "./mounts.ts";
import { containerResources } from "./resources.ts";
import { podIdentity } from "./sandbox-config.ts";
import { containerSecurity } from "./security-context.ts";

export interface ContainerConfigInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly restartCount: number;
  /** What the runtime says of the image that `container.image` names. */
  readonly image: Image;
  readonly envs: readonly EnvironmentVariable[];
  readonly mounts: readonly Mount[];
  readonly options: NodeOptions;
  readonly resources: NodeResources;
  /** Whose processes an ephemeral container sees. */
  readonly targetContainerId?: string;
}

/** API default, for what a manifest leaves out. */
const TERMINATION_MESSAGE_POLICY = "File";

/**
 * The configuration of CreateContainer. Command and arguments have their `$(NAME)`s replaced; absent ones leave the image's own.
 *
 * @throws {ContainerConfigError} for a user that the spec forbids
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container.go generateContainerConfig.
 */
export function containerConfig(input: ContainerConfigInput): ContainerConfig {
  const { container, envs, image, mounts, pod, resources, restartCount } = input;
  const values = new Map(envs.map(({ key, value }) => [key, value]));
  const expanded = (texts: readonly string[]): readonly string[] => texts.map((text) => expand(text, (name) => values.get(name)));
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

/**
 * What must be known of the container when its pod's spec is gone: how it ended, and how to end it.
 *
 * Source: pkg/kubelet/kuberuntime/labels.go newContainerAnnotations.
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
