/**
 * Decides what follows the response to an own write. Pure: the caller classifies the response, sends the next request, and stores the
 * record.
 */
import type { OwnWrite } from "./decide-writes.ts";
import { MANAGER_PREFIX, managerOf } from "./last-write.ts";
import type { ObjectBody, OwnerReference } from "./wanted.ts";

/** Outcomes of a write. Any other error, or a lost response, is a failure with back-off. */
export type OwnAnswer =
  | { readonly kind: "ok"; readonly object: ObjectBody }
  /** A DELETE succeeded, or found nothing. */
  | { readonly kind: "gone" }
  | { readonly kind: "alreadyExists" }
  /** 409 of an apply without `force`. */
  | { readonly kind: "fieldConflict"; readonly managers: readonly string[] }
  /** 409 of a precondition, or 404. */
  | { readonly kind: "changed" };

export type AfterAnswer =
  /** Store the record of this object. */
  | { readonly kind: "record"; readonly object: ObjectBody }
  | { readonly kind: "done" }
  /** GET the object whose name is taken, then `afterTaken`. */
  | { readonly kind: "look" }
  /** Send the apply again with `force`. */
  | { readonly kind: "force" }
  /** Send the Event and back off; nothing else is written for this object. */
  | { readonly kind: "backOff"; readonly event: "NameTaken" | "Contested"; readonly message: string }
  /** Read the primary live, write it through, and decide again. */
  | { readonly kind: "decideAgain" };

export function afterAnswer(write: OwnWrite, answer: OwnAnswer, controller: string): AfterAnswer {
  switch (answer.kind) {
    case "ok":
      return write.kind === "prune" || write.kind === "remove" ? { kind: "done" } : { kind: "record", object: answer.object };
    case "gone":
      return write.kind === "prune" || write.kind === "remove" ? { kind: "done" } : { kind: "decideAgain" };
    case "alreadyExists":
      return write.kind === "create" ? { kind: "look" } : { kind: "decideAgain" };
    case "fieldConflict": {
      const rivals = answer.managers.filter((manager) => manager.startsWith(MANAGER_PREFIX) && manager !== managerOf(controller));
      if (rivals.length === 0) return { kind: "force" };
      return {
        kind: "backOff",
        event: "Contested",
        message: `${rivals.join(", ")} manages the same fields: remove them from one of the two controllers`,
      };
    }
    case "changed":
      // An object that changed between decision and delete is examined in one more sync.
      return write.kind === "prune" ? { kind: "done" } : { kind: "decideAgain" };
  }
}

/** After the GET of a name that is taken; `undefined`: the object is gone meanwhile. */
export function afterTaken({ id, body }: Extract<OwnWrite, { readonly kind: "create" }>, found: ObjectBody | undefined): AfterAnswer {
  if (found === undefined) return { kind: "decideAgain" };
  const [wanted] = body.metadata.ownerReferences ?? [];
  const isOurs = (found.metadata.ownerReferences ?? []).some((reference) => reference.controller === true && isSame(reference, wanted));
  if (isOurs) return { kind: "record", object: found };
  const place = id.namespace === "" ? "" : `${id.namespace}/`;
  return {
    kind: "backOff",
    event: "NameTaken",
    message: `${id.kind.kind} ${place}${id.name} exists and ${holderText(found, wanted)}: delete or rename it`,
  };
}

/** `is controlled by StatefulSet db`, of an object whose name is taken. @param wanted reference to the primary that wants it */
function holderText({ metadata }: ObjectBody, wanted: OwnerReference | undefined): string {
  const holder = (metadata.ownerReferences ?? []).find(({ controller }) => controller === true);
  if (holder === undefined) return "has no controller";
  const isNamesake = holder.kind === wanted?.kind && holder.name === wanted.name;
  return `is controlled by ${holder.kind} ${holder.name}${isNamesake ? " of another uid" : ""}`;
}

/** All four parts: a reference that matches only in part is another object's. */
function isSame(a: OwnerReference, b: OwnerReference | undefined): boolean {
  const group = (reference: OwnerReference): string => reference.apiVersion.split("/").slice(0, -1).join("/");
  return b !== undefined && a.uid === b.uid && a.name === b.name && a.kind === b.kind && group(a) === group(b);
}

const BACK_OFF_MS = 5_000;
const BACK_OFF_MS_MAX = 300_000;

/** Back-off of an object that is contested or whose name is taken: 5 s, doubled up to 5 min. `times`: how often in a row, from 1. */
export function contestedBackOffMs(times: number): number {
  return Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS * 2 ** Math.max(0, times - 1));
}
