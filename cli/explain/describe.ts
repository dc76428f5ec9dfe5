/** Describes each decision in one line. The caller prints the controller and the key. */
import { shortName } from "@deltaloop/replay/explain";
import type { Condition, Labels } from "@deltaloop/kube/objects";
import type { Replaced, TraceLine, Write } from "@deltaloop/controllers/kit";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import { counted } from "../output/counted.ts";
import { printable } from "@deltaloop/base/output";
import { reasonInWords } from "./reason-words.ts";

export function describeTrace(line: TraceLine): string {
  return printable(describe(line));
}

function describe(line: TraceLine): string {
  switch (line.kind) {
    case "started":
      return "started";
    case "reason":
      return `because ${reasonInWords(line.reason)}`;
    case "decided":
      return describeWrite(line.write, line.replaced ?? {});
    case "event":
      return `event ${line.note.reason}: ${line.note.message}`;
    case "notDecided":
      return `not decided: ${line.what}`;
    case "ended":
      return line.error === undefined ? `ended: ${line.outcome}` : `ended: ${line.outcome} (${line.error})`;
  }
}

function describeWrite(write: Write, replaced: Replaced): string {
  switch (write.kind) {
    case "CreatePods":
      return `create ${counted(write.count, "pod")}`;
    case "DeletePod":
      return `delete pod ${write.name}`;
    case "Adopt":
      return `adopt ${singular(write.resource)} ${write.name}`;
    case "Release":
      return `release ${singular(write.resource)} ${write.name}`;
    case "CreateReplicaSet":
      return `create ReplicaSet ${write.name} with ${counted(write.replicas, "replica")}`;
    case "PatchReplicaSet": {
      const parts = [
        changed("replicas", replaced.replicas, write.replicas),
        changed("minReadySeconds", replaced.minReadySeconds, write.minReadySeconds),
        ...annotationsChanged(replaced.annotations, write.annotations),
        ...(write.copied?.keys ?? []).map((key) => `${shortName(key)} copied from the Deployment`),
      ];
      return `patch ReplicaSet ${write.name}: ${parts.filter((part) => part !== undefined).join(", ")}`;
    }
    case "DeleteReplicaSet":
      return `delete ReplicaSet ${write.name}`;
    case "RollBack":
      return write.to === undefined ? "remove the rollback annotation" : `roll back to ReplicaSet ${write.to.name}`;
    case "UpdateStatus": {
      const parts = [
        ...countersChanged(replaced.status, write.status),
        ...write.absent
          .filter((name) => counter(replaced.status, name) !== 0)
          .map((name) => changed(shown(name), counter(replaced.status, name), 0)),
        ...conditionsChanged(replaced.status?.conditions ?? [], write.status.conditions ?? []),
        ...annotationsChanged(replaced.annotations, write.annotations),
      ];
      return `status: ${parts.join(", ") || "unchanged"}`;
    }
  }
}

/** Describes a change as `replicas 2 → 3`, or as `replicas 3` if `before` is unknown. Returns undefined if the value is not written. */
function changed<T extends number | string>(name: string, before: T | undefined, after: T | undefined): string | undefined {
  if (after === undefined) return undefined;
  return before === undefined || before === after ? `${name} ${after}` : `${name} ${before} → ${after}`;
}

type Status = NonNullable<Replaced["status"]>;

/** Counters that change, or all if the previous status is unknown. Kubernetes omits counters that are 0. */
function countersChanged(before: Status | undefined, after: Status): readonly string[] {
  return Object.entries(after).flatMap(([name, value]) => {
    if (typeof value !== "number" || (before !== undefined && counter(before, name) === value)) return [];
    return changed(shown(name), before && counter(before, name), value) ?? [];
  });
}

function counter(status: Status | undefined, name: string): number {
  const value = (status as Readonly<Record<string, unknown>> | undefined)?.[name]; // a status has no other fields
  return typeof value === "number" ? value : 0;
}

/** The counter's name as in `kubectl describe`: `readyReplicas` is `ready`. */
function shown(counterName: string): string {
  return counterName === "observedGeneration" ? "observed generation" : counterName.replace("Replicas", "");
}

/** `Progressing Unknown → False (ProgressDeadlineExceeded)`; if only times and message change, `Progressing refreshed`. */
function conditionsChanged(before: readonly Condition[], after: readonly Condition[]): readonly string[] {
  const gone = before.filter(({ type }) => !after.some((condition) => condition.type === type)).map(({ type }) => `${type} removed`);
  const there = after.flatMap((condition) => {
    const { type, status, reason = "" } = condition;
    const old = before.find((one) => one.type === type);
    if (old?.status === status && (old.reason ?? "") === reason) return sameCondition(old, condition) ? [] : [`${type} refreshed`];
    return `${changed(type, old?.status, status)}${reason === "" ? "" : ` (${reason})`}`;
  });
  return [...there, ...gone];
}

function sameCondition(a: Condition, b: Condition): boolean {
  return a.message === b.message && a.lastUpdateTime === b.lastUpdateTime && a.lastTransitionTime === b.lastTransitionTime;
}

function annotationsChanged(before: Labels | undefined, after: Labels | undefined): readonly string[] {
  return Object.entries(after ?? {}).flatMap(([key, value]) => changed(shortName(key), before?.[key], value) ?? []);
}

function singular(resource: "pods" | "replicasets"): string {
  return resource === "pods" ? "pod" : "ReplicaSet";
}

/** Whether a sync has a decision or an error to show. */
export function decides({ lines, error }: ReplayedSync): boolean {
  return error !== undefined || lines.some(({ kind }) => kind === "decided");
}
