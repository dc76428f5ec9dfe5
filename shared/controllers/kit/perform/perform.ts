/**
 * Executes the writes of all controllers: turns writes into calls and answers into cache rows.
 *
 * PF1 intents of a batch are registered before its first create or delete. By the response to a call its intent is removed, planned (to be
 *     sent again) or left pending.
 * PF2 no pod is created from a template that the decision did not see: the owner is read live first, once per run, or taken from a recent
 *     response (HO1).
 * PF3 every object from a response or a live read is written through, one Store call per group of concurrent responses.
 * PF4 no call starts unless `run.mayWrite()`; otherwise LeaseEndsError.
 * PF5 in shadow mode nothing is sent, registered or written through. The decision is traced, with the decisions that would have depended on
 *     the response; the sync ends as done.
 *
 * Writes are executed in order. Adjacent claims or pod deletes run concurrently; the first group that fails ends the list.
 */
import { loggedWrite, notDecided } from "../logged.ts";
import type { RunCalls } from "./calls.ts";
import { claim } from "./claims.ts";
import type { ClaimWrite } from "./claims.ts";
import { createPods } from "./create-pods.ts";
import { deletePods } from "./delete-pods.ts";
import { createReplicaSet, deleteReplicaSet, patchReplicaSet } from "./replica-sets.ts";
import { rollBack } from "./roll-back.ts";
import { updateStatus } from "./status.ts";
import type { BuildReplicaSet, BuildRollback, ListedWrite, Performed, StatusOptions, WriteOf, WriteResult } from "../performed.ts";
import { replacedBy } from "../replaced.ts";
import type { Write } from "../writes.ts";

/**
 * Executes writes in order.
 *
 * @throws {Error} if the sync cannot continue: the lease ends, another run has the key, or the owner cannot be read
 */
export async function perform(calls: RunCalls, writes: readonly ListedWrite[]): Promise<Performed> {
  if (writes.length === 0) return { results: [] };
  return traceAndStopInShadow(calls, writes) ?? (await performGroups(calls, writes));
}

/** Creates a ReplicaSet. @throws as `perform` */
export async function performCreate(calls: RunCalls, write: WriteOf<"CreateReplicaSet">, build: BuildReplicaSet): Promise<Performed> {
  return traceAndStopInShadow(calls, [write]) ?? (await createReplicaSet(calls, write, build));
}

/** Ends a rollback request. @throws as `perform` */
export async function performRollback(calls: RunCalls, write: WriteOf<"RollBack">, build: BuildRollback): Promise<Performed> {
  return traceAndStopInShadow(calls, [write]) ?? (await rollBack(calls, write, build));
}

/** Writes a status. @throws as `perform` */
export async function performStatus(calls: RunCalls, write: WriteOf<"UpdateStatus">, options: StatusOptions): Promise<Performed> {
  return traceAndStopInShadow(calls, [write]) ?? (await updateStatus(calls, write, options));
}

/** Traces the writes. In shadow mode the sync ends here (PF5). */
function traceAndStopInShadow({ ports, run }: RunCalls, writes: readonly Write[]): Performed | undefined {
  const { controller, key } = run;
  for (const write of ports.trace ? writes : []) {
    const replaced = replacedBy(write, run.snapshot);
    ports.trace?.({ controller, key, kind: "decided", write: loggedWrite(write), ...(replaced && { replaced }) });
  }
  if (ports.gateway.mode !== "shadow") return undefined;
  const unsent = writes.map(({ kind }) => kind).join(", ");
  // The trace already contains each write.
  if (!ports.trace) ports.log.info("write not sent: shadow mode", { key, controller, writes: unsent });
  for (const what of writes.slice(-1).flatMap(notDecided)) ports.trace?.({ controller, key, kind: "notDecided", what });
  return { end: { kind: "done" }, results: writes.map(() => ({ kind: "notTried" })) };
}

async function performGroups(calls: RunCalls, writes: readonly ListedWrite[]): Promise<Performed> {
  const results: WriteResult[] = [];
  for (const group of groupsOf(writes)) {
    const performed = await performGroup(calls, group);
    results.push(...performed.results);
    if (performed.end || performed.error || performed.results.some(({ kind }) => kind === "notTried")) {
      while (results.length < writes.length) results.push({ kind: "notTried" });
      return { ...performed, results };
    }
  }
  return { results };
}

/** Adjacent writes that run concurrently: claims of one resource, deletes of pods. */
function groupsOf(writes: readonly ListedWrite[]): readonly (readonly ListedWrite[])[] {
  const groups: ListedWrite[][] = [];
  for (const write of writes) {
    const group = groups.at(-1);
    if (group?.[0] && belongTogether(group[0], write)) group.push(write);
    else groups.push([write]);
  }
  return groups;
}

function belongTogether(a: ListedWrite, b: ListedWrite): boolean {
  if (isClaim(a)) return isClaim(b) && a.resource === b.resource;
  return a.kind === "DeletePod" && b.kind === "DeletePod";
}

function isClaim(write: Write): write is ClaimWrite {
  return write.kind === "Adopt" || write.kind === "Release";
}

async function performGroup(calls: RunCalls, group: readonly ListedWrite[]): Promise<Performed> {
  const [write] = group;
  switch (write?.kind) {
    case undefined:
      return { results: [] };
    case "Adopt":
    case "Release":
      return claim(calls, group.filter(isClaim));
    case "DeletePod":
      return deletePods(
        calls,
        group.filter((each): each is WriteOf<"DeletePod"> => each.kind === "DeletePod"),
      );
    case "CreatePods":
      return createPods(calls, write);
    case "PatchReplicaSet":
      return patchReplicaSet(calls, write);
    case "DeleteReplicaSet":
      return deleteReplicaSet(calls, write);
    default:
      return write satisfies never;
  }
}
