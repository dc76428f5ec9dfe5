/** A story in a few numbers: what was asked for, what was recorded, what ours decides, and how it stands at the end. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Write } from "@deltaloop/controllers/kit";
import type { Difference, ObjectChange } from "./changes.ts";
import type { Recorded } from "./outcome.ts";
import type { Entry, Subject } from "./story.ts";

/** A change of what somebody wants of the object, without what its status says. */
export interface Wish {
  readonly atMs: number;
  readonly change: ObjectChange;
}

export interface Refusal {
  readonly fromMs: number;
  /** Undefined: it stood to the end. */
  readonly untilMs?: number;
  readonly resource: ObjectChange["resource"];
  readonly name: string;
  /** As `FailedCreate`. */
  readonly reason: string;
  /** Where it may be told. */
  readonly says?: string;
}

export interface Summary {
  readonly wishes: readonly Wish[];
  readonly recorded: Readonly<Record<"replicaSetsCreated" | "sizesChanged" | "podsCreated" | "podsDeleted", number>>;
  readonly syncs: number;
  readonly idle: number;
  /** What ours decides, each write once until a sync of the key does without it. */
  readonly decided: Readonly<Partial<Record<Write["kind"], number>>>;
  /** Of its creations of pods, how many were asked for each time. */
  readonly podsAsked: readonly number[];
  /** Of those that can be told apart. */
  readonly outcomes: Readonly<Record<Recorded["kind"], number>>;
  /** Of the refused ones: some of their pods were made. */
  readonly refusedInPart: number;
  readonly refusals: readonly Refusal[];
  readonly end: End;
}

export interface End {
  /** The last change of an owner, or the last decision. */
  readonly sinceMs: number;
  /** Keys whose last sync decides something, as `replicasets shop/web-1`. */
  readonly busy: readonly string[];
  /** Of the subject as it stood last: what its fields said, by the names of changes.ts; undefined: it is gone. */
  readonly fields?: ReadonlyMap<string, string>;
}

/** @param entries the whole story */
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

/** What is not the controllers' own. */
const KEPT_BY_CONTROLLERS = /^(?:status\..*|[A-Z].*|revision|owner|phase|ready|node|restarts)$/;

function wishOf(change: ObjectChange): readonly Wish[] {
  if (change.kind === "goes" || change.kind === "stands")
    return [{ atMs: change.atMs, change: { ...change, differences: wanted(change) } }];
  const differences = wanted(change);
  return differences.length === 0 ? [] : [{ atMs: change.atMs, change: { ...change, differences } }];
}

function wanted({ differences }: ObjectChange): readonly Difference[] {
  return differences.filter(({ field }) => !KEPT_BY_CONTROLLERS.test(field));
}

/** The writes that a key did not decide the time before: until the stream brings the answer, each sync decides them again. */
function newDecisions(): (key: string, writes: readonly Write[]) => readonly Write[] {
  const last = new Map<string, ReadonlySet<string>>();
  return (key, writes) => {
    const said = writes.map(gist);
    const known = last.get(key);
    last.set(key, new Set(said));
    return writes.filter((_, index) => known?.has(said[index] ?? "") !== true);
  };
}

/** Versions change with every answer, and the decision does not. */
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
      refusals.splice(known, 1, { ...(refusals[known] as Refusal), untilMs: change.atMs }); // it stands there
      standing.delete(place);
    }
    if (ended || failure === undefined || known !== undefined) continue;
    standing.set(place, refusals.length);
    const { resource, name, atMs } = change;
    const reason = failure.to?.replace(/^True(?: \((.*)\))?$/, "$1") ?? "";
    refusals.push({ fromMs: atMs, resource, name, reason, ...(failure.says !== undefined && { says: failure.says }) });
  }
  // A Deployment hands up what its ReplicaSet says.
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
