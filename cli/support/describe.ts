/** Decisions in one line each, for terminals. Whose they are stands before them. */
import type { TraceLine } from "../../shared/controller/run.ts";
import type { Write } from "../../shared/controller/writes.ts";
import { printable } from "./printable.ts";

export function describeTrace(line: TraceLine): string {
  return printable(describe(line));
}

function describe(line: TraceLine): string {
  switch (line.kind) {
    case "started":
      return "started";
    case "decided":
      return describeWrite(line.write);
    case "event":
      return `event ${line.note.reason}: ${line.note.message}`;
    case "notDecided":
      return `not decided: ${line.what}`;
    case "ended":
      return line.error === undefined ? `ended: ${line.outcome}` : `ended: ${line.outcome} (${line.error})`;
  }
}

function describeWrite(write: Write): string {
  switch (write.kind) {
    case "CreatePods":
      return `create ${count(write.count, "pod")}`;
    case "DeletePod":
      return `delete pod ${write.name}`;
    case "Adopt":
      return `adopt ${singular(write.resource)} ${write.name}`;
    case "Release":
      return `release ${singular(write.resource)} ${write.name}`;
    case "CreateReplicaSet":
      return `create ReplicaSet ${write.name} with ${count(write.replicas, "replica")}`;
    case "PatchReplicaSet": {
      const parts = [
        write.replicas === undefined ? undefined : `replicas ${write.replicas}`,
        write.minReadySeconds === undefined ? undefined : `minReadySeconds ${write.minReadySeconds}`,
        ...Object.entries(write.annotations ?? {}).map(([key, value]) => `${key.split("/").at(-1)} ${value}`),
        ...(write.copied?.keys ?? []).map((key) => `${key.split("/").at(-1)} as the Deployment has it`),
      ];
      return `patch ReplicaSet ${write.name}: ${parts.filter((part) => part !== undefined).join(", ")}`;
    }
    case "DeleteReplicaSet":
      return `delete ReplicaSet ${write.name}`;
    case "RollBack":
      return write.to === undefined ? "take back the request for a rollback" : `roll back to ReplicaSet ${write.to.name}`;
    case "UpdateStatus": {
      const counts = Object.entries(write.status).flatMap(([name, value]) =>
        typeof value === "number" && name !== "observedGeneration" ? [`${name.replace("Replicas", "")} ${value}`] : [],
      );
      return `status: ${counts.join(", ")}`;
    }
  }
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

function singular(resource: "pods" | "replicasets"): string {
  return resource === "pods" ? "pod" : "ReplicaSet";
}
