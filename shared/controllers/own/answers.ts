/** Classifies rejections by the API server by their effect on a write of a user controller. */
import { isAlreadyExists, isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import type { KubeApiError } from "@deltaloop/kube/client";
import type { OwnAnswer, OwnWrite } from "@deltaloop/sdk/writes";

/** Matches the message of a FieldManagerConflict, one per conflicting field, and captures the other manager. Source: apimachinery pkg/util/managedfields/internal/conflict.go NewConflictError. */
const MANAGER = /^conflict with "([^"]+)"/;

/** @throws the error if it is not a rejection of the write; the key is then retried with back-off */
export function answerOf(error: unknown, { kind }: Pick<OwnWrite, "kind">): OwnAnswer {
  if (isAlreadyExists(error)) return { kind: "alreadyExists" };
  if (isNotFound(error) && kind !== "create") return { kind: kind === "prune" || kind === "remove" ? "gone" : "changed" };
  if (!isConflict(error)) throw error;
  const managers = (error as KubeApiError).causes.flatMap(({ reason, message = "" }) =>
    reason === "FieldManagerConflict" ? [MANAGER.exec(message)?.[1] ?? "another manager"] : [],
  );
  return managers.length > 0 ? { kind: "fieldConflict", managers: [...new Set(managers)] } : { kind: "changed" };
}

/** A JSON patch whose test fails, or whose version is old. */
export function isOutdated(error: unknown): boolean {
  return isConflict(error) || isInvalid(error) || isNotFound(error);
}
