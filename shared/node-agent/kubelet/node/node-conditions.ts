/** The Node conditions that the kubelet owns (node-agent §14.2). */
import type { V1NodeCondition } from "@kubernetes/client-node";
import { formatTime, type Wire } from "@deltaloop/kube/objects";
import type { PressureCondition } from "../types/eviction-thresholds.ts";

export type NodeCondition = Wire<V1NodeCondition>;

export interface NodeHealth {
  /** Error of the runtime or the PLEG. */
  readonly runtimeError?: string;
  readonly networkError?: string;
  readonly shuttingDown?: true;
  /** Current pressure conditions. Default: none. */
  readonly pressure?: readonly PressureCondition[];
  /** Resources whose capacity is unknown. */
  readonly missingCapacity: readonly string[];
}

interface Observed {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/**
 * For each condition: its type, reason and message without pressure, reason and message with pressure. Source:
 * pkg/kubelet/nodestatus/setters.go.
 */
const PRESSURES: readonly (readonly [PressureCondition, string, string, string, string])[] = [
  [
    "MemoryPressure",
    "KubeletHasSufficientMemory",
    "kubelet has sufficient memory available",
    "KubeletHasInsufficientMemory",
    "kubelet has insufficient memory available",
  ],
  ["DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", "KubeletHasDiskPressure", "kubelet has disk pressure"],
  [
    "PIDPressure",
    "KubeletHasSufficientPID",
    "kubelet has sufficient PID available",
    "KubeletHasInsufficientPID",
    "kubelet has insufficient PID available",
  ],
];

function pressureConditions(pressure: readonly PressureCondition[]): readonly Observed[] {
  return PRESSURES.map(([type, ofNone, none, ofSome, some]) =>
    pressure.includes(type)
      ? { type, status: "True", reason: ofSome, message: some }
      : { type, status: "False", reason: ofNone, message: none },
  );
}

/**
 * Replaces the agent's conditions at their positions, keeps other conditions, and appends new ones. `lastTransitionTime` changes only
 * with the status.
 */
export function nodeConditions(previous: readonly NodeCondition[], health: NodeHealth, nowMs: number): NodeCondition[] {
  const now = formatTime(nowMs);
  const own = [...pressureConditions(health.pressure ?? []), readyCondition(health)].map((observed) => dated(previous, observed, now));
  const kept = previous.map((before) => own.find(({ type }) => type === before.type) ?? before);
  return [...kept, ...own.filter(({ type }) => !previous.some((before) => before.type === type))];
}

export function conditionOf(conditions: readonly NodeCondition[] | undefined, type: string): NodeCondition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Several errors are formatted as a Go aggregate, `[a, b]`. Source: setters.go ReadyCondition. */
function readyCondition({ runtimeError, networkError, shuttingDown, missingCapacity }: NodeHealth): Observed {
  const missing = missingCapacity.length > 0 ? `missing node capacity for resources: ${missingCapacity.join(", ")}` : undefined;
  const errors = [...new Set([runtimeError, networkError, shuttingDown && "node is shutting down", missing])].filter(
    (error) => error !== undefined && error !== "",
  );
  if (errors.length === 0) return { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" };
  const message = errors.length === 1 ? `${errors[0]}` : `[${errors.join(", ")}]`;
  return { type: "Ready", status: "False", reason: "KubeletNotReady", message };
}

function dated(previous: readonly NodeCondition[], observed: Observed, now: string): NodeCondition {
  const before = conditionOf(previous, observed.type);
  const lastTransitionTime = before?.status === observed.status ? before.lastTransitionTime : undefined;
  return { ...observed, lastHeartbeatTime: now, lastTransitionTime: lastTransitionTime ?? now };
}
