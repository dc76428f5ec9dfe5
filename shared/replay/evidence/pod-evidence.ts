/** The fields of a pod that explain an incident. Contains no command, argument, environment value, header or output of a container. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { copyNumber, copyText, defined, isObject, listIn, numberIn, objectIn, quantitiesIn, textIn, textsIn } from "./fields.ts";
import type { Json, Mutable } from "./fields.ts";
import { messageOf } from "./messages.ts";
import type { Message } from "./messages.ts";

/** Has the API's own shape, so `podEvidence` returns its own result unchanged. */
export interface PodEvidence {
  readonly metadata: { readonly deletionGracePeriodSeconds?: number; readonly finalizers?: readonly string[] };
  readonly spec: {
    readonly nodeName?: string;
    readonly priorityClassName?: string;
    readonly containers: readonly ContainerSpec[];
    readonly initContainers: readonly ContainerSpec[];
  };
  readonly status: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: Message;
    readonly startTime?: string;
    readonly conditions: readonly ConditionEvidence[];
    readonly containerStatuses: readonly ContainerStatus[];
    readonly initContainerStatuses: readonly ContainerStatus[];
  };
}

export interface ConditionEvidence {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly lastTransitionTime?: string;
  readonly lastUpdateTime?: string;
  readonly message?: Message;
}

export interface ContainerSpec {
  readonly name: string;
  readonly image?: string;
  /** `Always` marks an init container as a sidecar. */
  readonly restartPolicy?: string;
  readonly requests?: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
}

/** Without headers, query, command and service. */
export interface Probe {
  readonly handler: "httpGet" | "tcpSocket" | "grpc" | "exec";
  readonly port?: string;
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
  readonly successThreshold?: number;
}

export interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly state: ContainerState;
  readonly lastState: ContainerState;
}

export interface ContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: Message };
  readonly running?: { readonly startedAt?: string };
  readonly terminated?: {
    readonly reason?: string;
    readonly exitCode?: number;
    readonly signal?: number;
    readonly startedAt?: string;
    readonly finishedAt?: string;
  };
}

/** Conditions with messages from upstream. The message of a readiness gate belongs to another controller. */
const CONDITIONS = new Set([
  ...["PodScheduled", "Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers", "DisruptionTarget"],
  ...["Progressing", "Available", "ReplicaFailure", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"],
  ...["ScalingLimited", "ScalingActive", "AbleToScale", "DisruptionAllowed"],
]);

export function podEvidence(object: Json, digester: Digester): PodEvidence {
  const [metadata, spec, status] = [objectIn(object, "metadata"), objectIn(object, "spec"), objectIn(object, "status")];
  return {
    metadata: metadataOf(metadata),
    spec: specOf(spec),
    status: statusOf(status, digester),
  };
}

function metadataOf(metadata: Json): PodEvidence["metadata"] {
  const out: Mutable<PodEvidence["metadata"]> = {};
  copyNumber(out, "deletionGracePeriodSeconds", metadata);
  const finalizers = textsIn(metadata, "finalizers");
  if (finalizers.length > 0) out.finalizers = finalizers;
  return out;
}

function specOf(spec: Json): PodEvidence["spec"] {
  const out = {} as Mutable<PodEvidence["spec"]>; // the required fields follow
  copyText(out, "nodeName", spec);
  copyText(out, "priorityClassName", spec);
  out.containers = listIn(spec, "containers").map(containerSpec);
  out.initContainers = listIn(spec, "initContainers").map(containerSpec);
  return out;
}

function statusOf(status: Json, digester: Digester): PodEvidence["status"] {
  const out = {} as Mutable<PodEvidence["status"]>; // the required fields follow
  copyText(out, "phase", status);
  copyText(out, "reason", status);
  const message = messageOf(status["message"], out.reason, digester);
  if (message !== undefined) out.message = message;
  copyText(out, "startTime", status);
  out.conditions = conditionsIn(status, digester);
  out.containerStatuses = listIn(status, "containerStatuses").map((each) => containerStatus(each, digester));
  out.initContainerStatuses = listIn(status, "initContainerStatuses").map((each) => containerStatus(each, digester));
  return out;
}

export function conditionsIn(status: Json, digester: Digester): readonly ConditionEvidence[] {
  return listIn(status, "conditions").map((each) => {
    const out: Mutable<ConditionEvidence> = { type: textIn(each, "type") ?? "", status: textIn(each, "status") ?? "Unknown" };
    copyText(out, "reason", each);
    copyText(out, "lastTransitionTime", each);
    copyText(out, "lastUpdateTime", each);
    const message = CONDITIONS.has(out.type) ? messageOf(each["message"], out.reason, digester) : undefined;
    if (message !== undefined) out.message = message;
    return out;
  });
}

export function containerSpec(container: Json): ContainerSpec {
  // From evidence, or from an API object.
  const resources = isObject(container["resources"]) ? container["resources"] : container;
  const out: Mutable<ContainerSpec> = { name: textIn(container, "name") ?? "" };
  copyText(out, "image", container);
  copyText(out, "restartPolicy", container);
  for (const field of AMOUNTS) {
    if (resources[field] === undefined) continue;
    const amounts = quantitiesIn(resources, field);
    if (Object.keys(amounts).length > 0) out[field] = amounts;
  }
  for (const field of PROBES) {
    const probe = container[field];
    const found = isObject(probe) ? probeOf(probe) : undefined;
    if (found !== undefined) out[field] = found;
  }
  return out;
}

const AMOUNTS = ["requests", "limits"] as const;
const PROBES = ["livenessProbe", "readinessProbe", "startupProbe"] as const;
const HANDLERS = ["httpGet", "tcpSocket", "grpc", "exec"] as const;
const PROBE_NUMBERS = ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"] as const;

function probeOf(probe: Json): Probe | undefined {
  const handler = HANDLERS.find((each) => isObject(probe[each]) || probe["handler"] === each);
  if (handler === undefined) return undefined;
  const out: Mutable<Probe> = { handler };
  const port = objectIn(probe, handler)["port"] ?? probe["port"];
  if (typeof port === "number" || typeof port === "string") out.port = String(port);
  for (const field of PROBE_NUMBERS) copyNumber(out, field, probe);
  return out;
}

function containerStatus(status: Json, digester: Digester): ContainerStatus {
  const out = { name: textIn(status, "name") ?? "", ready: status["ready"] === true } as Mutable<ContainerStatus>; // the rest follows
  if (typeof status["started"] === "boolean") out.started = status["started"];
  out.restartCount = numberIn(status, "restartCount") ?? 0;
  out.state = containerState(objectIn(status, "state"), digester);
  out.lastState = containerState(objectIn(status, "lastState"), digester);
  return out;
}

function containerState({ waiting, running, terminated }: Json, digester: Digester): ContainerState {
  if (isObject(waiting)) {
    const reason = textIn(waiting, "reason");
    return { waiting: defined({ reason, message: messageOf(waiting["message"], reason, digester) }) };
  }
  if (isObject(running)) {
    const startedAt = textIn(running, "startedAt");
    return { running: startedAt === undefined ? {} : { startedAt } };
  }
  if (!isObject(terminated)) return {};
  // The message is omitted: it is the container's output.
  return {
    terminated: defined({
      reason: textIn(terminated, "reason"),
      exitCode: numberIn(terminated, "exitCode"),
      signal: numberIn(terminated, "signal"),
      startedAt: textIn(terminated, "startedAt"),
      finishedAt: textIn(terminated, "finishedAt"),
    }),
  };
}
