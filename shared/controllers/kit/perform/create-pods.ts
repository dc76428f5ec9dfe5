/** Pod creates: intents before the first call, slow start, one write-through per batch (informer §13). */
import { objectKey } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import { KubeApiError, NotSentError, TerminalError, isAlreadyExists, isNamespaceTerminating, isUnanswered } from "@deltaloop/kube/client";
import { mayLand, planCreates, wasUnanswered } from "../expectations.ts";
import type { CreateOp } from "../expectations.ts";
import { LeaseEndsError, toError } from "../errors.ts";
import { inTurn } from "../in-turn.ts";
import type { Performed, WriteOf } from "../performed.ts";
import { podFromTemplate } from "../pod-from-template.ts";
import type { WriteThrough } from "@deltaloop/store/ports";
import type { SyncPorts } from "../run.ts";
import type { Sealed } from "../sealed.ts";
import { slowStartBatches } from "../slow-start.ts";
import type { EventNote } from "../writes.ts";
import { storedObject } from "./calls.ts";
import type { AnswersOf, RunCalls } from "./calls.ts";
import { isPodOf, standing } from "./live-owner.ts";

type CreateOutcome =
  | { readonly kind: "created"; readonly object: KubeObject }
  /**
   * The namespace is terminating. Treated as a success, as upstream (replicaset §7.1): the expectation, here the intent, remains until it
   * expires.
   */
  | { readonly kind: "namespaceTerminating" }
  | { readonly kind: "refused"; readonly error: Error; /** The object that already has the name. */ readonly other?: KubeObject }
  | { readonly kind: "unanswered"; readonly error: Error }
  /** The create was not sent because the lease ends too soon; emits no failure Event. */
  | { readonly kind: "notSent" };

export async function createPods(calls: RunCalls, write: WriteOf<"CreatePods">): Promise<Performed> {
  const { run } = calls;
  const { owner, count, template } = write;
  const stand = standing(await calls.ownerToCreate(owner), template);
  if (stand.kind === "ended") return { end: stand.end, results: [{ kind: "notTried" }] };
  if (stand.kind === "deleting") return { results: [{ kind: "notTried" }] };
  const { live } = stand;

  const wanted = { ownerName: owner.name, ownerUid: owner.uid, epoch: run.epoch, count, drawn: calls.drawn };
  const { ops, drop, drawn } = planCreates(run.snapshot, wanted);
  let spent = calls.drawn;
  calls.drawn = drawn;
  const bodyOf = (op: CreateOp): ReturnType<typeof podFromTemplate> =>
    podFromTemplate(live.open(), { resource: podOwner(write), name: op.name, digest: template.digest });
  const probe = ops[0] && bodyOf(ops[0]);
  if (probe && "kind" in probe) {
    const error = new Error(probe.message);
    return { results: [{ kind: "failed", error }], error };
  }

  if (!run.mayWrite()) throw new LeaseEndsError();
  const unwanted = drop.map(({ id }) => id);
  /** Returns how the write-through settles the ops from `index` on, because their calls were not sent. */
  const untriedFrom = (index: number): Pick<WriteThrough, "lower" | "plan"> => {
    const { lower, plan } = giveUp(ops.slice(index), wasUnanswered);
    return { lower: [...unwanted, ...lower], plan };
  };
  await calls.register([...ops, ...drop].map(createIntent), untriedFrom(0), drawn);

  /** Write-through of the previous batch; it runs while the next batch is sent. */
  let saving = Promise.resolve();
  let created = 0;
  let error: Error | undefined;
  let tried = 0;
  for (const size of slowStartBatches(ops.length)) {
    if (!run.mayWrite()) {
      error = new LeaseEndsError();
      await calls.save({ resource: "pods", ...untriedFrom(tried) });
      break;
    }
    const batch = ops.slice(tried, tried + size);
    tried += size;
    // Bodies are built batch by batch to save memory.
    // Not an InvalidTemplate: the probe above had a valid body, and the bodies differ only in their name.
    const begun = await inTurn(batch, run.mayWrite, (op) => createPod(calls, { owner, op, body: bodyOf(op) as Sealed<object> }));
    const outcomes = begun.map((outcome): CreateOutcome => outcome ?? { kind: "notSent" });
    spent = batch.reduce((most, { index }, i) => (index !== undefined && isSpent(outcomes[i]) ? Math.max(most, index + 1) : most), spent);
    created += outcomes.filter((outcome) => outcome.kind === "created" || outcome.kind === "namespaceTerminating").length;
    error = outcomes.flatMap((outcome) => ("error" in outcome ? [outcome.error] : []))[0];
    if (outcomes.some(({ kind }) => kind === "notSent")) error ??= new LeaseEndsError();
    calls.emit(owner, outcomes.flatMap(createNotes));
    const saved = { batch, outcomes, unwanted: unwanted.splice(0) };
    try {
      await saving;
    } catch (thrown) {
      calls.saveLate(answersOf(calls, { ...saved, untried: ops.slice(tried) }));
      throw thrown;
    }
    saving = saveBatch(calls, { ...saved, untried: error === undefined ? [] : ops.slice(tried) });
    saving.catch(() => undefined); // the await below reports the rejection
    if (error !== undefined) break;
  }
  await saving;
  if (error instanceof LeaseEndsError) throw error;
  await calls.drawAgainFrom(spent);
  return { results: [{ kind: "created", count: created }], ...(error && { error }) };
}

/**
 * Whether the name was used in a call. Unused names are drawn again, so that a lost run that drew the same names creates no further pod
 * (IT5).
 */
function isSpent(outcome: CreateOutcome | undefined): boolean {
  return outcome !== undefined && outcome.kind !== "notSent";
}

interface PodCreate {
  readonly owner: WriteOf<"CreatePods">["owner"];
  readonly op: CreateOp;
  readonly body: Sealed<object>;
}

/**
 * Creates a pod; after a 5xx response, retries once with the same name. If the second call succeeds, or finds this owner's pod under the
 * name, both are settled. If it is rejected and there is no such pod, the first call may still take effect.
 */
async function createPod(calls: RunCalls, create: PodCreate): Promise<CreateOutcome> {
  const first = await tryCreate(calls, create);
  if (first.kind !== "unanswered" || !(first.error instanceof KubeApiError) || !calls.run.mayWrite()) return first;
  const second = await tryCreate(calls, { ...create, op: { ...create.op, mayLandUntilMs: calls.ports.clock.now() } });
  const isUnsettled = second.kind === "notSent" || (second.kind === "refused" && second.other === undefined);
  return isUnsettled ? first : second;
}

async function tryCreate(calls: RunCalls, { owner, op, body }: PodCreate): Promise<CreateOutcome> {
  const { name } = op;
  try {
    const object = storedObject(await calls.gateway.create({ resource: "pods", namespace: owner.namespace, body: body.open() }));
    // Without an object in the response, the outcome is as unknown as without a response.
    return object ? { kind: "created", object } : { kind: "unanswered", error: new Error("the response to a create has no object") };
  } catch (thrown) {
    const error = toError(thrown);
    if (isAlreadyExists(error)) return whoHasTheName(calls, owner, name, error);
    if (isNamespaceTerminating(error)) return { kind: "namespaceTerminating" };
    if (isUnanswered(error)) return { kind: "unanswered", error };
    if (error instanceof NotSentError) return { kind: "notSent" };
    // The quota is checked before the name, so an earlier call that got no response may have created this pod.
    return wasUnanswered(op) ? whoHasTheName(calls, owner, name, error) : { kind: "refused", error };
  }
}

/** Reads the pod of that name: if this owner controls it, an earlier call that got no response created it. */
async function whoHasTheName(
  { ports }: RunCalls,
  owner: WriteOf<"CreatePods">["owner"],
  name: string,
  refusal: Error,
): Promise<CreateOutcome> {
  try {
    const object = await ports.reader.get("pods", owner.namespace, name);
    if (object === undefined) return { kind: "refused", error: refusal };
    return isPodOf(owner, object) ? { kind: "created", object } : { kind: "refused", error: refusal, other: object };
  } catch (error) {
    return { kind: "unanswered", error: toError(error) };
  }
}

interface Batch {
  readonly batch: readonly CreateOp[];
  readonly outcomes: readonly CreateOutcome[];
  readonly unwanted: readonly string[];
  readonly untried: readonly CreateOp[];
}

async function saveBatch(calls: RunCalls, batch: Batch): Promise<void> {
  await calls.save(answersOf(calls, batch));
}

function answersOf(calls: RunCalls, { batch, outcomes, unwanted, untried }: Batch): AnswersOf<"pods"> {
  // The Store's time, because the Store has set the earlier call's deadline by it; the run's clock may differ.
  const nowMs = calls.run.snapshot.pods?.atMs ?? calls.ports.clock.now();
  const done: string[] = [];
  const hold: string[] = [];
  const refused: CreateOp[] = [];
  const unanswered: CreateOp[] = [];
  const unsent: CreateOp[] = [...untried];
  const again = new Set<CreateOp>();
  for (const [i, op] of batch.entries()) {
    const outcome = outcomes[i];
    if (outcome?.kind === "created") done.push(op.id);
    else if (outcome?.kind === "namespaceTerminating") hold.push(op.id);
    else if (outcome?.kind === "unanswered") unanswered.push(op);
    else if (outcome?.kind === "notSent") unsent.push(op);
    else refused.push(op);
    if (outcome?.kind === "refused" && isFree(op, outcome)) again.add(op);
  }
  const looked = giveUp(refused, (op) => mayLand(op, nowMs) || again.has(op));
  const waiting = giveUp(unsent, wasUnanswered);
  const objects = outcomes.flatMap((outcome) => {
    if (outcome.kind === "created") return [outcome.object];
    return outcome.kind === "refused" && outcome.other ? [outcome.other] : [];
  });
  return {
    resource: "pods",
    objects,
    absent: objects.map(({ metadata }) => objectKey(metadata.namespace ?? "", metadata.name)),
    lower: [...unwanted, ...done, ...looked.lower, ...waiting.lower],
    plan: [...unanswered.map(({ id }) => ({ id, mayLand: true })), ...looked.plan, ...waiting.plan],
    hold,
  };
}

/**
 * Whether the next create uses the rejected name again, so that a Store that is set back draws the name of the pod that it created (IT5).
 * Not if the rejection quotes the name: upstream's next Event has another one.
 */
function isFree({ name }: CreateOp, { error, other }: Extract<CreateOutcome, { kind: "refused" }>): boolean {
  return other === undefined && !error.message.includes(name);
}

/**
 * Settles ops that were rejected or never tried: removes them, except those that `keeps` accepts. These stay planned (the next create uses
 * their name first), because an earlier call with that name may still take effect, its pod may not be in the cache yet, or the name is free.
 */
function giveUp(
  ops: readonly CreateOp[],
  keeps: (op: CreateOp) => boolean,
): { readonly lower: readonly string[]; readonly plan: readonly { readonly id: string; readonly mayLand: boolean }[] } {
  const kept = ops.filter(keeps);
  return { lower: ops.filter((op) => !keeps(op)).map(({ id }) => id), plan: kept.map(({ id }) => ({ id, mayLand: false })) };
}

function createNotes(outcome: CreateOutcome): readonly EventNote[] {
  switch (outcome.kind) {
    case "created":
      return [{ type: "Normal", reason: "SuccessfulCreate", message: `Created pod: ${outcome.object.metadata.name}` }];
    case "refused":
    case "unanswered":
      return [{ type: "Warning", reason: "FailedCreate", message: `Error creating: ${outcome.error.message}` }];
    case "namespaceTerminating":
    case "notSent":
      return [];
    default:
      return outcome satisfies never;
  }
}

function createIntent({ id, name, mayLandUntilMs }: CreateOp): Parameters<SyncPorts["store"]["registerIntents"]>[2][number] {
  return { id, verb: "create", name, ...(mayLandUntilMs !== undefined && { mayLandUntilMs }) };
}

/** Deployments own no pods. */
function podOwner({ owner }: WriteOf<"CreatePods">): "replicasets" | "replicationcontrollers" {
  if (owner.resource === "deployments") throw new TerminalError("a Deployment does not create pods");
  return owner.resource;
}
