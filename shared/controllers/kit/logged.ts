/** Redacts decisions for logs and captures: removes texts that other components wrote. Requests to the API server keep them. */
import { withoutForeignMessages } from "@deltaloop/kube/objects";
import type { EventNote, Write } from "./writes.ts";

/** A write without the messages in its status conditions. No other write holds such texts. */
export function loggedWrite(write: Write): Write {
  if (write.kind !== "UpdateStatus") return write;
  // the same status with all conditions; only texts differ
  return { ...write, status: withoutForeignMessages(write.status) };
}

/** A Warning without the API server's message, which follows the first colon: `Error creating: admission webhook "x" denied the request: …`. */
export function loggedNote(note: EventNote): EventNote {
  return note.type === "Warning" ? { ...note, message: note.message.replace(/: .*$/su, ": (the full message is in the Event)") } : note;
}

/** Decisions that depend on the response to a write. Shadow mode gets no response, so the sync ends there. */
export function notDecided({ kind, owner }: Write): readonly string[] {
  const ofDeployment = owner.resource === "deployments";
  switch (kind) {
    case "Adopt":
    case "Release":
      return ofDeployment ? ["everything after the claims"] : ["pods to create or delete", "status"];
    case "CreatePods":
    case "DeletePod":
    case "DeleteReplicaSet":
      return ["status"];
    case "CreateReplicaSet":
      return ["revision and status", "sizes of the ReplicaSets"];
    case "PatchReplicaSet":
    case "RollBack":
      return ["the steps after the response"];
    case "UpdateStatus":
      return ofDeployment ? ["the steps after the status"] : [];
    default:
      return kind satisfies never;
  }
}
