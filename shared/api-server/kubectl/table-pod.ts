/**
 * The cells of a pod, including its Status column.
 *
 * Source: kubernetes/pkg/printers/internalversion/printers.go (printPod), v1.37.
 */
import { type Json, type JsonObject, metaOf, nameOf, numberAt, objectAt, objectsAt, textAt } from "@deltaloop/base";
import { age, since } from "./human-duration.ts";

export function podCells(pod: JsonObject, nowMs: number): Json[] {
  const spec = objectAt(pod, "spec");
  const status = objectAt(pod, "status");
  const statuses = objectsAt(status, "containerStatuses");
  const ready = statuses.filter((one) => one["ready"] === true && objectAt(objectAt(one, "state"), "running") !== undefined).length;
  const address = textAt(objectsAt(status, "podIPs")[0], "ip") ?? "<none>";
  return [
    nameOf(pod),
    `${ready}/${objectsAt(spec, "containers").length}`,
    podReason(pod),
    restarts(statuses, nowMs),
    age(pod, nowMs),
    address,
    textAt(spec, "nodeName") ?? "<none>",
    textAt(status, "nominatedNodeName") ?? "<none>",
    readinessGates(spec, status),
  ];
}

function podReason(pod: JsonObject): string {
  const status = objectAt(pod, "status");
  const phase = textAt(status, "phase") ?? "";
  const reason = containersReason(pod) ?? initReason(pod) ?? gatedReason(status) ?? textAt(status, "reason") ?? phase;
  if (metaOf(pod)["deletionTimestamp"] === undefined) return reason;
  if (textAt(status, "reason") === "NodeLost") return "Unknown";
  return phase === "Succeeded" || phase === "Failed" ? reason : "Terminating";
}

function gatedReason(status: JsonObject | undefined): string | undefined {
  const isGated = objectsAt(status, "conditions").some((one) => one["type"] === "PodScheduled" && one["reason"] === "SchedulingGated");
  return isGated ? "SchedulingGated" : undefined;
}

function initReason(pod: JsonObject): string | undefined {
  const init = objectsAt(objectAt(pod, "status"), "initContainerStatuses");
  const total = objectsAt(objectAt(pod, "spec"), "initContainers").length;
  for (const [i, one] of init.entries()) {
    const state = objectAt(one, "state");
    const terminated = objectAt(state, "terminated");
    if (terminated !== undefined && numberAt(terminated, "exitCode") === 0) continue;
    if (terminated !== undefined) return `Init:${exitReason(terminated)}`;
    const waiting = textAt(objectAt(state, "waiting"), "reason");
    return waiting !== undefined && waiting !== "PodInitializing" ? `Init:${waiting}` : `Init:${i}/${total}`;
  }
  return undefined;
}

/** The reason of the first container that has one. "Completed" counts as running if another container runs. */
function containersReason(pod: JsonObject): string | undefined {
  if (initReason(pod) !== undefined && !isConditionTrue(pod, "Initialized")) return undefined;
  let reason: string | undefined;
  let failure: string | undefined;
  let isRunning = false;
  for (const one of objectsAt(objectAt(pod, "status"), "containerStatuses").toReversed()) {
    const state = objectAt(one, "state");
    const waiting = textAt(objectAt(state, "waiting"), "reason");
    const terminated = objectAt(state, "terminated");
    if (waiting !== undefined) reason = waiting;
    else if (terminated !== undefined) {
      reason = exitReason(terminated);
      if (numberAt(terminated, "exitCode") !== 0) failure = reason;
    } else if (one["ready"] === true && objectAt(state, "running") !== undefined) isRunning = true;
  }
  if (reason !== "Completed") return reason;
  if (isRunning && isConditionTrue(pod, "Ready")) return "Running";
  return failure ?? (isRunning ? "NotReady" : reason);
}

function exitReason(terminated: JsonObject): string {
  const signal = numberAt(terminated, "signal") ?? 0;
  return textAt(terminated, "reason") ?? (signal === 0 ? `ExitCode:${numberAt(terminated, "exitCode") ?? 0}` : `Signal:${signal}`);
}

function isConditionTrue(pod: JsonObject, type: string): boolean {
  return objectsAt(objectAt(pod, "status"), "conditions").some((one) => one["type"] === type && one["status"] === "True");
}

function restarts(statuses: readonly JsonObject[], nowMs: number): string {
  const total = statuses.reduce((sum, one) => sum + (numberAt(one, "restartCount") ?? 0), 0);
  const ends = statuses.flatMap((one) => textAt(objectAt(objectAt(one, "lastState"), "terminated"), "finishedAt") ?? []).sort();
  const last = ends.at(-1);
  return total === 0 || last === undefined ? String(total) : `${total} (${since(last, nowMs)} ago)`;
}

function readinessGates(spec: JsonObject | undefined, status: JsonObject | undefined): string {
  const gates = objectsAt(spec, "readinessGates");
  if (gates.length === 0) return "<none>";
  const met = gates.filter((gate) =>
    objectsAt(status, "conditions").some((one) => one["type"] === gate["conditionType"] && one["status"] === "True"),
  );
  return `${met.length}/${gates.length}`;
}
