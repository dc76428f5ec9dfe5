/** The values that a write replaces, as the decision read them, so that users can see the change. */
import type { DeploymentStatus, ReplicaSetStatus, Labels } from "@deltaloop/kube/objects";
import { withoutForeignMessages } from "@deltaloop/kube/objects";
import type { Snapshot } from "@deltaloop/store/ports";
import type { Write } from "./writes.ts";

/** A ReplicaSet's spec, a whole status, or the existing values of the annotations that the write names. */
export interface Replaced {
  readonly replicas?: number;
  readonly minReadySeconds?: number;
  readonly status?: ReplicaSetStatus | DeploymentStatus;
  readonly annotations?: Labels;
}

/** Undefined if the write replaces nothing, or the run's cache lacked the object. */
export function replacedBy(write: Write, { primary, dependents }: Pick<Snapshot, "primary" | "dependents">): Replaced | undefined {
  if (write.kind !== "UpdateStatus" && write.kind !== "PatchReplicaSet") return undefined;
  const uid = write.kind === "UpdateStatus" ? write.owner.uid : write.uid;
  const object = [primary, ...dependents].find((row) => row?.uid === uid)?.object;
  if (object === undefined || !("spec" in object)) return undefined;
  const { replicas, minReadySeconds } = object.spec;
  const annotations = named(object.metadata.annotations, write.annotations);
  if (write.kind === "UpdateStatus") return { status: withoutForeignMessages(object.status), ...(annotations && { annotations }) };
  return {
    ...(replicas !== undefined && { replicas }),
    ...(minReadySeconds !== undefined && { minReadySeconds }),
    ...(annotations && { annotations }),
  };
}

function named(annotations: Labels | undefined, wanted: Labels | undefined): Labels | undefined {
  if (wanted === undefined || annotations === undefined) return undefined;
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => Object.hasOwn(wanted, name)));
}
