/** The fields of a pod that explain an incident. Contains no command, argument, environment value, header or output of a container. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { defined, isObject, listIn, numberIn, objectIn, quantitiesIn, textIn, textsIn } from "./fields.ts";
import type { Json } from "./fields.ts";
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
  const finalizers = textsIn(metadata, "finalizers");
  return {
    metadata: defined({
      deletionGracePeriodSeconds: numberIn(metadata, "deletionGracePeriodSeconds"),
      finalizers: finalizers.length > 0 ? finalizers : undefined,
    }),
    spec: {
      ...defined({ nodeName: textIn(spec, "nodeName"), priorityClassName: textIn(spec, "priorityClassName") }),
      containers: listIn(spec, "containers").map(containerSpec),
      initContainers: listIn(spec, "initContainers").map(containerSpec),
    },
    status: {
      ...defined({
        phase: textIn(status, "phase"),
        reason: textIn(status, "reason"),
        message: messageOf(status["message"], textIn(status, "reason"), digester),
        startTime: textIn(status, "startTime"),
      }),
      conditions: conditionsIn(status, digester),
      containerStatuses: listIn(status, "containerStatuses").map((each) => containerStatus(each, digester)),
      initContainerStatuses: listIn(status, "initContainerStatuses").map((each) => containerStatus(each, digester)),
    },
  };
}

export function conditionsIn(status: Json, digester: Digester): readonly ConditionEvidence[] {
  return listIn(status, "conditions").map((each) => {
    const [type, reason] = [textIn(each, "type") ?? "", textIn(each, "reason")];
    const message = CONDITIONS.has(type) ? messageOf(each["message"], reason, digester) : undefined;
    return {
      ...{ type, status: textIn(each, "status") ?? "Unknown" },
      ...defined({
        reason,
        lastTransitionTime: textIn(each, "lastTransitionTime"),
        lastUpdateTime: textIn(each, "lastUpdateTime"),
        message,
      }),
    };
  });
}

export function containerSpec(container: Json): ContainerSpec {
  // From evidence, or from an API object.
  const resources = isObject(container["resources"]) ? container["resources"] : container;
  const amounts = (field: string): Readonly<Record<string, string>> | undefined => {
    const found = quantitiesIn(resources, field);
    return Object.keys(found).length > 0 ? found : undefined;
  };
  return {
    name: textIn(container, "name") ?? "",
    ...defined({
      image: textIn(container, "image"),
      restartPolicy: textIn(container, "restartPolicy"),
      requests: amounts("requests"),
      limits: amounts("limits"),
      livenessProbe: probeIn(container, "livenessProbe"),
      readinessProbe: probeIn(container, "readinessProbe"),
      startupProbe: probeIn(container, "startupProbe"),
    }),
  };
}

const HANDLERS = ["httpGet", "tcpSocket", "grpc", "exec"] as const;

function probeIn(container: Json, field: string): Probe | undefined {
  const probe = objectIn(container, field);
  const handler = HANDLERS.find((each) => isObject(probe[each]) || probe["handler"] === each);
  if (handler === undefined) return undefined;
  const port = objectIn(probe, handler)["port"] ?? probe["port"];
  return {
    handler,
    ...defined({
      port: typeof port === "number" || typeof port === "string" ? String(port) : undefined,
      initialDelaySeconds: numberIn(probe, "initialDelaySeconds"),
      periodSeconds: numberIn(probe, "periodSeconds"),
      timeoutSeconds: numberIn(probe, "timeoutSeconds"),
      failureThreshold: numberIn(probe, "failureThreshold"),
      successThreshold: numberIn(probe, "successThreshold"),
    }),
  };
}

function containerStatus(status: Json, digester: Digester): ContainerStatus {
  const { started } = status;
  return {
    name: textIn(status, "name") ?? "",
    ready: status["ready"] === true,
    ...(typeof started === "boolean" && { started }),
    restartCount: numberIn(status, "restartCount") ?? 0,
    state: containerState(objectIn(status, "state"), digester),
    lastState: containerState(objectIn(status, "lastState"), digester),
  };
}

function containerState({ waiting, running, terminated }: Json, digester: Digester): ContainerState {
  if (isObject(waiting)) {
    const reason = textIn(waiting, "reason");
    return { waiting: defined({ reason, message: messageOf(waiting["message"], reason, digester) }) };
  }
  if (isObject(running)) return { running: defined({ startedAt: textIn(running, "startedAt") }) };
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
