/**
 * Recorded clusters, in which upstream's controllers worked, beside what our syncs do there: every write of upstream's is looked for
 * among ours, and where upstream rested ours are looked at.
 *
 * SH1 upstream's caches lag behind the API server, nobody knows how far: a write may come from the state just before it (`exact`) or
 *    from one of half a second before (`older`). What a write was made on, it tells itself: a status by the version that it names.
 * SH2 of pods that are equal to the order of deletion, upstream takes any: ours may be another of them (`tie`).
 * SH3 at rest is a state that nothing changed for a second; upstream had seen it and wrote nothing, so neither may we.
 */
import { existsSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import type { Controller } from "../../shared/api/resources.ts";
import type { Condition } from "../../shared/api/wire.ts";
import { refusal } from "../support/scripted-api.ts";
import { Cluster } from "../unit/deployment/cluster.ts";
import type { Json, Live } from "../unit/deployment/cluster.ts";

export interface Recording {
  /** In the order of their versions. */
  readonly changes: readonly Change[];
  /** Upstream's writes that the API server took; none where no audit log was kept. */
  readonly writes: readonly UpstreamWrite[];
}

interface Change {
  readonly version: number;
  readonly deleted: boolean;
  readonly object: Live;
  /** When the watch told it. */
  readonly atMs: number;
}

export interface UpstreamWrite {
  readonly controller: Controller;
  /** `update deployments/status web`. */
  readonly label: string;
  readonly entry: AuditEntry;
}

interface AuditEntry {
  readonly verb: string;
  readonly requestReceivedTimestamp: string;
  readonly user: { readonly username: string };
  readonly objectRef: { readonly resource: string; readonly subresource?: string; readonly name?: string };
  readonly responseStatus: { readonly code: number };
  readonly requestObject: Live;
  readonly responseObject: Live;
}

interface WatchLine {
  readonly t: string;
  readonly r?: string;
  readonly type?: string;
  readonly k?: string;
  readonly object?: Live;
}

export type Verdict =
  | { readonly kind: "exact" | "older" | "tie" }
  | { readonly kind: "unexplained"; readonly want: unknown; readonly ours: readonly unknown[] };

/** How far upstream's caches may lag behind the API server: so many changes, told so long ago. */
const LAG_MAX = 40;
const LAG_MS_MAX = 500;
const REST_MS = 1_000;
const OWNERS: Readonly<Record<string, Controller>> = {
  Deployment: "deployment",
  ReplicaSet: "replicaset",
  ReplicationController: "replicationcontroller",
};
const UPSTREAM: Readonly<Record<string, Controller>> = {
  "system:serviceaccount:kube-system:deployment-controller": "deployment",
  "system:serviceaccount:kube-system:replicaset-controller": "replicaset",
  "system:serviceaccount:kube-system:replication-controller": "replicationcontroller",
};
const KINDS = [...Object.keys(OWNERS), "Pod"];
const WRITES = ["create", "update", "patch", "delete"];

export function readRecording(name: string): Recording {
  const lines = readLines<WatchLine>(`${name}.watch`).filter(
    ({ type = "", k, object }) => (["ADDED", "MODIFIED", "DELETED"].includes(type) || k === "item") && KINDS.includes(object?.kind ?? ""),
  );
  const changes = lines.flatMap(({ t, type, object }) =>
    object === undefined
      ? []
      : [{ version: Number(object.metadata.resourceVersion), deleted: type === "DELETED", object, atMs: Date.parse(t) }],
  );
  const audited = existsSync(fileOf(`${name}.audit`)) ? readLines<AuditEntry>(`${name}.audit`) : [];
  const writes = audited.flatMap((entry) => {
    const { user, verb, objectRef, responseStatus } = entry;
    const controller = UPSTREAM[user.username];
    if (controller === undefined || !WRITES.includes(verb) || objectRef.resource === "events" || responseStatus.code >= 300) return [];
    const { resource, subresource, name: named } = objectRef;
    const label = `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`} ${named ?? entry.responseObject.metadata.name}`;
    return [{ controller, label, entry }];
  });
  return { changes: changes.toSorted((a, b) => a.version - b.version), writes };
}

function fileOf(name: string): URL {
  return new URL(`../captures/${name}.jsonl.gz`, import.meta.url);
}

function readLines<T>(name: string): readonly T[] {
  const text = gunzipSync(readFileSync(fileOf(name))).toString();
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T); // our own captures, whose form informer §18 gives
}

/** SH1, SH2 */
export async function judge({ changes }: Recording, { controller, entry }: UpstreamWrite): Promise<Verdict> {
  const nowMs = Date.parse(entry.requestReceivedTimestamp);
  const want = saidUpstream(entry, nowMs);
  const version = versionOf(entry, changes);
  const before = changes.filter((change) => change.version < version).length;
  const versions = changes.slice(0, before).filter((change) => isOwnerOf(entry, controller, change));
  const wrote = entry.objectRef.subresource === "status" ? entry.requestObject.metadata.resourceVersion : undefined;
  const failure = wrote === undefined ? undefined : failureOf(entry.responseObject);
  let nearest: readonly unknown[] = [];
  let tie = false;
  for (let lag = 0; lag <= LAG_MAX && before - lag > 0; lag++) {
    if (lag > 0 && (changes[before - lag]?.atMs ?? 0) < nowMs - LAG_MS_MAX) break;
    // The owner is none of the state: without its last change, that is the same as a moment ago.
    if (lag > 0 && versions.some(({ version: own }) => own === changes[before - lag]?.version)) continue;
    const candidates =
      wrote === undefined ? versions.slice(-2).toReversed() : versions.filter(({ object }) => object.metadata.resourceVersion === wrote);
    for (const { object: owner } of candidates) {
      const state = stateAfter(changes, before - lag, owner);
      const ours = await ourWrites(state, { controller, owner, nowMs, failure });
      if (lag === 0) nearest = ours;
      if (ours.some((each) => same(each, want))) return { kind: lag === 0 ? "exact" : "older" };
      tie ||= entry.verb === "delete" && ours.some((each) => areTied(each, want, { state, nowMs }));
    }
  }
  return tie ? { kind: "tie" } : { kind: "unexplained", want, ours: nearest };
}

/** Where the write stands in the order of changes. */
function versionOf({ verb, objectRef, responseObject }: AuditEntry, changes: readonly Change[]): number {
  if (verb !== "delete") return Number(responseObject.metadata.resourceVersion);
  const going = changes.find(
    ({ object, deleted }) => object.metadata.name === objectRef.name && (deleted || object.metadata.deletionTimestamp !== undefined),
  );
  return going?.version ?? Number.MAX_SAFE_INTEGER;
}

/** Whether a change is of the object whose sync has written: the one that is named, or the owner of what is. */
function isOwnerOf({ objectRef, requestObject, responseObject }: AuditEntry, controller: Controller, { object }: Change): boolean {
  if (OWNERS[object.kind ?? ""] !== controller) return false;
  if (`${controller}s` === objectRef.resource) return object.metadata.name === objectRef.name;
  const owners = [responseObject, requestObject].flatMap((each) => each?.metadata?.ownerReferences ?? []);
  return owners.length === 0 || owners.some(({ uid }) => uid === object.metadata.uid);
}

/** All objects after the first `count` changes, but the owner as upstream had it. */
export function stateAfter(changes: readonly Change[], count: number, owner?: Live): readonly Live[] {
  const state = new Map<string, Live>();
  const idOf = ({ kind, metadata }: Live): string => `${kind} ${metadata.name}`;
  for (const { deleted, object } of changes.slice(0, count)) {
    if (deleted) state.delete(idOf(object));
    else state.set(idOf(object), object);
  }
  if (owner !== undefined) state.set(idOf(owner), owner);
  return [...state.values()];
}

interface Situation {
  readonly controller: Controller;
  readonly owner: Live;
  readonly nowMs: number;
  /** What refuses pods, in the API server's words. */
  readonly failure: string | undefined;
}

/** After our sync in that state. */
async function afterSync(
  state: readonly Live[],
  { controller, owner, nowMs, failure }: Situation,
): Promise<{ readonly cluster: Cluster; readonly before: number }> {
  const cluster = await Cluster.of(state.toSorted(byOwnership), { nowMs, controller });
  if (failure !== undefined) cluster.api.script = { "create pods": refusal(403, "Forbidden", failure) };
  const before = cluster.api.changes().length;
  // A sync that fails half-way has made its writes all the same.
  await cluster.sync(owner.metadata.name).catch(() => undefined);
  return { cluster, before };
}

/** The writes our sync makes in that state, as they were stored. */
export async function ourWrites(state: readonly Live[], situation: Situation): Promise<readonly unknown[]> {
  const { cluster, before } = await afterSync(state, situation);
  const deletes = cluster.requests.flatMap(({ verb, resource, name }) => (verb === "delete" ? [{ delete: `${resource} ${name}` }] : []));
  const stored = cluster.api.changes(before).filter(({ type }) => type !== "DELETED");
  return [...deletes, ...stored.map(({ object }) => said(cluster.given(object), situation.nowMs))];
}

/** Whose sync an object is the subject of; undefined for a pod. */
export function controllerOf({ kind = "" }: Live): Controller | undefined {
  return OWNERS[kind];
}

/** What ReplicaFailure says. */
function failureOf({ status }: Live): string | undefined {
  const conditions = (status?.["conditions"] ?? []) as readonly Condition[]; // of every owner
  return conditions.find(({ type }) => type === "ReplicaFailure")?.message;
}

/** Owners first. */
function byOwnership(a: Live, b: Live): number {
  return KINDS.indexOf(a.kind ?? "") - KINDS.indexOf(b.kind ?? "");
}

function saidUpstream({ verb, objectRef, requestObject, responseObject }: AuditEntry, nowMs: number): unknown {
  if (verb === "delete") return { delete: `${objectRef.resource} ${objectRef.name}` };
  // What admission adds to a pod is none of the controller's.
  if (verb === "create" && objectRef.resource === "pods") return said({ ...requestObject, kind: "Pod" }, nowMs);
  return said({ ...responseObject, kind: kindsOf(objectRef.resource) }, nowMs);
}

function kindsOf(resource: string): string {
  return KINDS.find((kind) => `${kind.toLowerCase()}s` === resource) ?? "";
}

/** What a write says, without what depends on the moment: times within two seconds of it are `<now>`. */
function said({ kind, metadata, spec, status }: Live, nowMs: number): unknown {
  const time = (text: string | undefined): string | undefined =>
    text !== undefined && Math.abs(Date.parse(text) - nowMs) < 2000 ? "<now>" : text;
  const { labels, annotations, ownerReferences, generateName } = metadata as Live["metadata"] & { readonly generateName?: string };
  if (kind === "Pod") return { pod: generateName, labels, annotations, ownerReferences, containers: containersOf(spec) };
  const { conditions = [], ...counters } = (status ?? {}) as Json & { readonly conditions?: readonly Condition[] };
  const told = {
    counters,
    conditions: conditions.map((each) => ({
      ...each,
      lastUpdateTime: time(each.lastUpdateTime),
      lastTransitionTime: time(each.lastTransitionTime),
    })),
  };
  if (kind === "Deployment") return { revision: annotations?.["deployment.kubernetes.io/revision"], ...told };
  return { name: metadata.name, labels, annotations, ownerReferences, spec, ...told };
}

/** Names and images: the rest is the API server's to default. */
function containersOf(spec: Json | undefined): unknown {
  const containers = (spec?.["containers"] ?? []) as readonly { readonly name: string; readonly image: string }[]; // a pod's
  return containers.map(({ name, image }) => ({ name, image }));
}

function areTied(ours: unknown, want: unknown, { state, nowMs }: { readonly state: readonly Live[]; readonly nowMs: number }): boolean {
  const pods = state.filter(({ kind }) => kind === "Pod");
  const standingOf = (write: unknown): string | undefined => {
    const found = pods.find(({ metadata }) => same(write, { delete: `pods ${metadata.name}` }));
    return found === undefined ? undefined : canonical(standing(found, pods, nowMs));
  };
  const wanted = standingOf(want);
  return wanted !== undefined && standingOf(ours) === wanted;
}

/** All that the order of deletion sees of a pod, but its uid. Source: pkg/controller/controller_utils.go ActivePodsWithRanks, logarithmicRankDiff. */
function standing({ metadata, spec, status }: Live, pods: readonly Live[], nowMs: number): unknown {
  const { phase, conditions = [], containerStatuses = [] } = (status ?? {}) as PodStatus;
  const ready = conditions.find(({ type }) => type === "Ready");
  const bucket = (time = ""): number => Math.floor(Math.log2((nowMs - Date.parse(time)) * 1e6));
  return {
    phase,
    ready: ready?.status,
    readyFor: bucket(ready?.lastTransitionTime),
    age: bucket(metadata.creationTimestamp),
    node: pods.filter((pod) => isActive(pod) && pod.spec?.["nodeName"] === spec?.["nodeName"]).length,
    cost: metadata.annotations?.["controller.kubernetes.io/pod-deletion-cost"],
    restarts: containerStatuses.map(({ restartCount }) => restartCount),
  };
}

interface PodStatus {
  readonly phase?: string;
  readonly conditions?: readonly Condition[];
  readonly containerStatuses?: readonly { readonly restartCount: number }[];
}

function isActive({ metadata, status }: Live): boolean {
  return metadata.deletionTimestamp === undefined && !["Succeeded", "Failed"].includes((status as PodStatus | undefined)?.phase ?? "");
}

/** SH3: what our syncs ask for in states where upstream rested, as `replicaset web after 12 changes: patch replicasets/status web`. */
export async function writesAtRest({ changes }: Recording): Promise<{ readonly rests: number; readonly ours: readonly string[] }> {
  const ours: string[] = [];
  let rests = 0;
  for (const [index, { atMs }] of changes.entries()) {
    const next = changes[index + 1];
    if (next !== undefined && next.atMs - atMs < REST_MS) continue;
    rests++;
    const state = stateAfter(changes, index + 1);
    for (const owner of state) {
      const controller = OWNERS[owner.kind ?? ""];
      if (controller === undefined) continue;
      const failure = failureOf(owner);
      const { cluster } = await afterSync(state, { controller, owner, nowMs: atMs + REST_MS - 100, failure });
      // What is refused is tried again by upstream, too.
      const writes = cluster.written().filter((write) => failure === undefined || !write.startsWith("create pods"));
      ours.push(...writes.map((write) => `${controller} ${owner.metadata.name} after ${index + 1} changes: ${write}`));
    }
  }
  return { rests, ours };
}

function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
