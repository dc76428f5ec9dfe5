/** The fields of a pod that explain an incident. Contains no command, argument, environment value, header or output of a container. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { defined, isObject, mapObjects, numberIn, objectIn, quantitiesIn, textIn, textOf, textsIn } from "./fields.ts";
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

/** A probe without headers, query, command and service. */
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

/**
 * Runs for each recorded event of a pod, the most frequent ones, so fields are copied by name: a loop over their names costs twice as much.
 */
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
  const { deletionGracePeriodSeconds } = metadata;
  if (typeof deletionGracePeriodSeconds === "number") out.deletionGracePeriodSeconds = deletionGracePeriodSeconds;
  const finalizers = textsIn(metadata, "finalizers");
  if (finalizers.length > 0) out.finalizers = finalizers;
  return out;
}

function specOf(spec: Json): PodEvidence["spec"] {
  const out = {} as Mutable<PodEvidence["spec"]>; // the required fields follow
  const { nodeName, priorityClassName } = spec;
  if (typeof nodeName === "string") out.nodeName = nodeName;
  if (typeof priorityClassName === "string") out.priorityClassName = priorityClassName;
  out.containers = mapObjects(spec["containers"], containerSpec);
  out.initContainers = mapObjects(spec["initContainers"], containerSpec);
  return out;
}

function statusOf(status: Json, digester: Digester): PodEvidence["status"] {
  const out = {} as Mutable<PodEvidence["status"]>; // the required fields follow
  const { phase, reason, startTime } = status;
  if (typeof phase === "string") out.phase = phase;
  if (typeof reason === "string") out.reason = reason;
  const message = messageOf(status["message"], out.reason, digester);
  if (message !== undefined) out.message = message;
  if (typeof startTime === "string") out.startTime = startTime;
  const containerStatus = (each: Json): ContainerStatus => containerStatusOf(each, digester);
  out.conditions = conditionsIn(status, digester);
  out.containerStatuses = mapObjects(status["containerStatuses"], containerStatus);
  out.initContainerStatuses = mapObjects(status["initContainerStatuses"], containerStatus);
  return out;
}

export function conditionsIn(status: Json, digester: Digester): readonly ConditionEvidence[] {
  return mapObjects(status["conditions"], (each) => {
    const { type, reason, lastTransitionTime, lastUpdateTime } = each;
    const out: Mutable<ConditionEvidence> = { type: textOf(type) ?? "", status: textOf(each["status"]) ?? "Unknown" };
    if (typeof reason === "string") out.reason = reason;
    if (typeof lastTransitionTime === "string") out.lastTransitionTime = lastTransitionTime;
    if (typeof lastUpdateTime === "string") out.lastUpdateTime = lastUpdateTime;
    const message = CONDITIONS.has(out.type) ? messageOf(each["message"], out.reason, digester) : undefined;
    if (message !== undefined) out.message = message;
    return out;
  });
}

export function containerSpec(container: Json): ContainerSpec {
  const { name, image, restartPolicy, livenessProbe, readinessProbe, startupProbe } = container;
  // The container may be from evidence or from an API object.
  const resources = isObject(container["resources"]) ? container["resources"] : container;
  const out: Mutable<ContainerSpec> = { name: textOf(name) ?? "" };
  if (typeof image === "string") out.image = image;
  if (typeof restartPolicy === "string") out.restartPolicy = restartPolicy;
  const [requests, limits] = [amountsIn(resources, "requests"), amountsIn(resources, "limits")];
  if (requests !== undefined) out.requests = requests;
  if (limits !== undefined) out.limits = limits;
  const [liveness, readiness, startup] = [probeOf(livenessProbe), probeOf(readinessProbe), probeOf(startupProbe)];
  if (liveness !== undefined) out.livenessProbe = liveness;
  if (readiness !== undefined) out.readinessProbe = readiness;
  if (startup !== undefined) out.startupProbe = startup;
  return out;
}

/** Undefined if there are none. */
function amountsIn(resources: Json, field: "requests" | "limits"): ContainerSpec["requests"] {
  const amounts = isObject(resources[field]) ? quantitiesIn(resources, field) : {};
  for (const _name in amounts) return amounts;
  return undefined;
}

const HANDLERS = ["httpGet", "tcpSocket", "grpc", "exec"] as const;

function probeOf(probe: unknown): Probe | undefined {
  if (!isObject(probe)) return undefined;
  const handler = HANDLERS.find((each) => isObject(probe[each]) || probe["handler"] === each);
  if (handler === undefined) return undefined;
  const { initialDelaySeconds, periodSeconds, timeoutSeconds, failureThreshold, successThreshold } = probe;
  const out: Mutable<Probe> = { handler };
  const port = objectIn(probe, handler)["port"] ?? probe["port"];
  if (typeof port === "number" || typeof port === "string") out.port = String(port);
  if (typeof initialDelaySeconds === "number") out.initialDelaySeconds = initialDelaySeconds;
  if (typeof periodSeconds === "number") out.periodSeconds = periodSeconds;
  if (typeof timeoutSeconds === "number") out.timeoutSeconds = timeoutSeconds;
  if (typeof failureThreshold === "number") out.failureThreshold = failureThreshold;
  if (typeof successThreshold === "number") out.successThreshold = successThreshold;
  return out;
}

function containerStatusOf(status: Json, digester: Digester): ContainerStatus {
  const { name, ready, started, restartCount, state, lastState } = status;
  const out = { name: textOf(name) ?? "", ready: ready === true } as Mutable<ContainerStatus>; // the rest follows
  if (typeof started === "boolean") out.started = started;
  out.restartCount = typeof restartCount === "number" ? restartCount : 0;
  out.state = containerState(state, digester);
  out.lastState = containerState(lastState, digester);
  return out;
}

function containerState(state: unknown, digester: Digester): ContainerState {
  if (!isObject(state)) return {};
  const { waiting, running, terminated } = state;
  if (isObject(waiting)) {
    const reason = textOf(waiting["reason"]);
    return { waiting: defined({ reason, message: messageOf(waiting["message"], reason, digester) }) };
  }
  if (isObject(running)) {
    const startedAt = textOf(running["startedAt"]);
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
