/** Summary of an object's history: requests, recorded writes, deltaloop's decisions, and the final state. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Write } from "@deltaloop/controllers/kit";
import type { Difference, ObjectChange } from "./changes.ts";
import type { Recorded } from "./outcome.ts";
import type { Entry, Subject } from "./story.ts";

/** A change of the desired state. */
export interface Wish {
  readonly atMs: number;
  readonly change: ObjectChange;
}

export interface Refusal {
  readonly fromMs: number;
  /** Undefined if unresolved at the end. */
  readonly untilMs?: number;
  readonly resource: ObjectChange["resource"];
  readonly name: string;
  /** The Event's reason, for example `FailedCreate`. */
  readonly reason: string;
  /** The message, if it is safe to show. */
  readonly says?: string;
}

export interface Summary {
  readonly wishes: readonly Wish[];
  readonly recorded: Readonly<Record<"replicaSetsCreated" | "sizesChanged" | "podsCreated" | "podsDeleted", number>>;
  readonly syncs: number;
  readonly idle: number;
  /** Number of writes that deltaloop's syncs decided, by kind. A write that consecutive syncs of a key repeat counts once. */
  readonly decided: Readonly<Partial<Record<Write["kind"], number>>>;
  /** Requested pods per creation. */
  readonly podsAsked: readonly number[];
  /** Outcomes of distinguishable writes. */
  readonly outcomes: Readonly<Record<Recorded["kind"], number>>;
  /** Number of partly rejected writes, for which some pods were created. */
  readonly refusedInPart: number;
  readonly refusals: readonly Refusal[];
  readonly end: End;
}

export interface End {
  /** Time of the owner's last change, or of the last decision. */
  readonly sinceMs: number;
  /** Keys whose last sync decides a write, for example `replicasets shop/web-1`. */
  readonly busy: readonly string[];
  /** The subject's final fields, named as in changes.ts; undefined if it was deleted. */
  readonly fields?: ReadonlyMap<string, string>;
}

export function summaryOf({ resource, namespace, name }: Subject, entries: readonly Entry[]): Summary {
  const changes = entries.flatMap((entry) => (entry.kind === "change" ? [entry.change] : []));
  const own = changes.filter((change) => change.resource === resource && change.namespace === namespace && change.name === name);
  const syncs = entries.filter((entry) => entry.kind === "sync");
  const isNew = newDecisions();
  const decided: Partial<Record<Write["kind"], number>> = {};
  const outcomes = { same: 0, other: 0, refused: 0, overtaken: 0, nothing: 0 };
  const podsAsked: number[] = [];
  const last = new Map<string, boolean>();
  let [idle, refusedInPart, decidedMs] = [0, 0, -Infinity];
  for (const { sync, recorded, atMs } of syncs) {
    const writes = sync.lines.flatMap((line) => (line.kind === "decided" ? [line.write] : []));
    const key = `${CONTROLLER_INFO[sync.controller].primary} ${sync.key}`;
    last.set(key, writes.length > 0);
    if (writes.length === 0) idle++;
    else decidedMs = Math.max(decidedMs, atMs);
    const fresh = new Set(isNew(key, writes));
    for (const write of fresh) {
      decided[write.kind] = (decided[write.kind] ?? 0) + 1;
      if (write.kind === "CreatePods") podsAsked.push(write.count);
    }
    for (const { kind, write, made = 0 } of recorded) {
      if (!fresh.has(write)) continue;
      outcomes[kind]++;
      if (kind === "refused" && made > 0) refusedInPart++;
    }
  }
  const isReplicaSet = (change: ObjectChange): boolean => change.resource === "replicasets" && resource !== "replicasets";
  const owners = changes.filter((change) => change.resource !== "pods" || resource === "pods");
  const fields = fieldsAtEnd(own);
  return {
    wishes: own.flatMap((change) => wishOf(change)),
    recorded: {
      replicaSetsCreated: changes.filter((change) => isReplicaSet(change) && change.kind === "appears").length,
      sizesChanged: changes.filter((change) => isReplicaSet(change) && change.kind === "changes" && has(change, "replicas")).length,
      podsCreated: changes.filter((change) => change.resource === "pods" && change.kind === "appears").length,
      podsDeleted: new Set(changes.filter((change) => change.resource === "pods" && isEnding(change)).map(({ uid }) => uid)).size,
    },
    syncs: syncs.length,
    idle,
    decided,
    podsAsked,
    outcomes,
    refusedInPart,
    refusals: refusalsIn(changes),
    end: {
      sinceMs: owners.reduce((latest, { atMs }) => Math.max(latest, atMs), decidedMs),
      busy: [...last].flatMap(([key, decides]) => (decides ? [key] : [])),
      ...(fields !== undefined && { fields }),
    },
  };
}

/** Fields that controllers write. */
const KEPT_BY_CONTROLLERS = /^(?:status\..*|[A-Z].*|revision|owner|phase|ready|node|restarts)$/;

function wishOf(change: ObjectChange): readonly Wish[] {
  if (change.kind === "goes" || change.kind === "stands")
    return [{ atMs: change.atMs, change: { ...change, differences: requestedDifferences(change) } }];
  const differences = requestedDifferences(change);
  return differences.length === 0 ? [] : [{ atMs: change.atMs, change: { ...change, differences } }];
}

/** The differences in fields that users write, not controllers. */
export function requestedDifferences({ differences }: ObjectChange): readonly Difference[] {
  return differences.filter(({ field }) => !KEPT_BY_CONTROLLERS.test(field));
}

/** Returns the writes that a key's previous sync did not decide. Until the stream shows the result, each sync repeats its writes. */
function newDecisions(): (key: string, writes: readonly Write[]) => readonly Write[] {
  const last = new Map<string, ReadonlySet<string>>();
  return (key, writes) => {
    const said = writes.map(gist);
    const known = last.get(key);
    last.set(key, new Set(said));
    return writes.filter((_, index) => known?.has(said[index] ?? "") !== true);
  };
}

/** Identifies a write regardless of versions, which change with every result. */
function gist(write: Write): string {
  return JSON.stringify(write, (name, value: unknown) => (name === "resourceVersion" || name === "generation" ? undefined : value));
}

function refusalsIn(changes: readonly ObjectChange[]): readonly Refusal[] {
  const refusals: Refusal[] = [];
  const standing = new Map<string, number>();
  for (const change of changes) {
    const place = `${change.resource} ${change.uid}`;
    const failure = change.differences.find(({ field }) => field === "ReplicaFailure");
    const known = standing.get(place);
    const ended = change.kind === "goes" || (failure !== undefined && failure.to?.startsWith("True") !== true);
    if (ended && known !== undefined) {
      refusals.splice(known, 1, { ...(refusals[known] as Refusal), untilMs: change.atMs }); // the index is valid
      standing.delete(place);
    }
    if (ended || failure === undefined || known !== undefined) continue;
    standing.set(place, refusals.length);
    const { resource, name, atMs } = change;
    const reason = failure.to?.replace(/^True(?: \((.*)\))?$/, "$1") ?? "";
    refusals.push({ fromMs: atMs, resource, name, reason, ...(failure.says !== undefined && { says: failure.says }) });
  }
  // A Deployment repeats its ReplicaSet's failure.
  return refusals.filter(
    ({ resource, says }) => resource !== "deployments" || !refusals.some((each) => each.resource !== resource && each.says === says),
  );
}

function fieldsAtEnd(own: readonly ObjectChange[]): ReadonlyMap<string, string> | undefined {
  const fields = new Map<string, string>();
  for (const { kind, differences } of own) {
    if (kind === "appears" || kind === "stands") fields.clear();
    for (const { field, to } of differences) {
      if (to === undefined) fields.delete(field);
      else fields.set(field, to);
    }
  }
  return own.length === 0 || own.at(-1)?.kind === "goes" ? undefined : fields;
}

function has({ differences }: ObjectChange, field: string): boolean {
  return differences.some((difference) => difference.field === field);
}

function isEnding(change: ObjectChange): boolean {
  return change.kind === "goes" || change.differences.some(({ field, from }) => field === "asked to end" && from === undefined);
}
