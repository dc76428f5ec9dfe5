/**
 * The objects of a cluster at one moment, and earlier changes. Built during the first read of a capture, so that the verdict needs no
 * replay, or from one read of a live API server.
 *
 * IS1 only the newest recording of each existing object is kept; it is projected when the state is requested.
 * IS2 at most `CHANGES_MAX` changes of an owner's spec and `COUNTS_MAX` of its available pods are kept, and of a former pod only the time it
 *     took to become ready, and its deletion by another client than its owner.
 */
import { tableOf, EVIDENCE_RESOURCES } from "@deltaloop/kube/objects";
import type { EvidenceResource, Resource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { CapturedObject, CaptureRecord, EvidenceRecord, ObjectIdentity } from "../capture-format/capture.ts";
import type { Census } from "../capture-format/capture-stream.ts";
import { identityIn } from "../capture-format/captured-object.ts";
import { textIn } from "../evidence/fields.ts";
import type { Json } from "../evidence/fields.ts";
import type { EventEvidence, EvidenceObjects } from "../evidence/other-evidence.ts";
import { otherEvidence } from "../evidence/other-evidence.ts";
import { apiEvidence, apiObject } from "./api-objects.ts";
import { PodDeletions } from "./pod-deletions.ts";
import type { PodDeletion } from "./pod-deletions.ts";
import { seenOwner, seenPod, startMsOf } from "./seen.ts";
import type { Recording, SeenOwner, SeenPod } from "./seen.ts";
import { specChanges, withCompletion } from "./spec-changes.ts";
import type { SpecChange } from "./spec-changes.ts";

export interface ClusterState {
  readonly nowMs: number;
  /** Time from which changes are known; undefined if none are known. */
  readonly sinceMs?: number;
  readonly owners: readonly SeenOwner[];
  /** All pods. Reading this projects every pod; `podsOf` projects only those of one owner. */
  readonly pods: readonly SeenPod[];
  readonly others: { readonly [R in EvidenceResource]: readonly EvidenceObjects[R][] };
  /** Resources that the user may not read, or that the capture does not hold. */
  readonly unknown: ReadonlySet<EvidenceResource>;
  podsOf(ownerUid: string): readonly SeenPod[];
  /** Newest first. */
  eventsOf(uid: string): readonly EventEvidence[];
  changesOf(uid: string): readonly SpecChange[];
  /** Time of the last recorded change of an owner's generation, even of a field that `changesOf` does not show. */
  changedMsOf(uid: string): number | undefined;
  /** Earlier values of an owner's `status.availableReplicas`, oldest first. */
  availableOf(uid: string): readonly AvailableCount[];
  /** Deletions of the owner's pods by another client than itself, oldest first. */
  deletionsOf(ownerUid: string): readonly PodDeletion[];
  /** How long earlier pods of the owner took to become ready. */
  startsOf(ownerUid: string): readonly number[];
}

export interface AvailableCount {
  readonly atMs: number;
  readonly available: number;
}

interface StateOptions {
  readonly nowMs?: number;
  /** Skips objects of other namespaces, because projecting them takes time. */
  readonly namespace?: string | undefined;
}

const [CHANGES_MAX, STARTS_MAX, COUNTS_MAX] = [50, 100, 200];

/** The newest record of an object. The record's line may not be parsed yet. */
interface Kept<R extends CaptureRecord | EvidenceRecord = CaptureRecord> {
  readonly record: R;
  readonly identity: ObjectIdentity;
}

export class StateCensus implements Census {
  readonly #untilOf: (startMs: number) => number;
  #untilMs = Infinity;
  readonly #digester: Digester;
  #kept = new Map<string, Kept>();
  #others = tableOf(EVIDENCE_RESOURCES, () => new Map<string, Kept<EvidenceRecord>>());
  #listed = new Map<string, Set<string>>();
  #changes = new Map<string, readonly SpecChange[]>();
  #changedMs = new Map<string, number>();
  #starts = new Map<string, number[]>();
  #counts = new Map<string, AvailableCount[]>();
  #deletions = new PodDeletions();
  #heard = new Set<EvidenceResource>();
  #denied = new Set<EvidenceResource>();
  #startMs = Infinity;
  /** Time of the capture's last record. */
  #endMs = -Infinity;

  /** @param untilOf returns the time up to which records belong to the state, given the time of the first record */
  constructor(digester: Digester, untilOf: (startMs: number) => number = () => Infinity) {
    [this.#digester, this.#untilOf] = [digester, untilOf];
  }

  begin(): void {
    [this.#kept, this.#listed, this.#changes, this.#starts, this.#counts] = [new Map(), new Map(), new Map(), new Map(), new Map()];
    [this.#changedMs, this.#deletions] = [new Map(), new PodDeletions()];
    this.#others = tableOf(EVIDENCE_RESOURCES, () => new Map<string, Kept<EvidenceRecord>>());
    [this.#heard, this.#denied, this.#startMs, this.#endMs] = [new Set(), new Set(), Infinity, -Infinity];
  }

  see(record: CaptureRecord): void {
    const { atMs, resource, kind, type, by } = record;
    if (this.#startMs === Infinity) this.#untilMs = this.#untilOf(atMs);
    [this.#startMs, this.#endMs] = [Math.min(this.#startMs, atMs), Math.max(this.#endMs, atMs)];
    if (atMs > this.#untilMs) return;
    if (kind === "listed")
      return this.#listEnds(resource, (uid) => this.#kept.get(uid)?.record.resource === resource && this.#forget(uid), this.#kept);
    const identity = identityIn(record);
    const uid = identity?.uid;
    if (identity === undefined || uid === undefined) return;
    if (kind === "item") this.#lists(resource).add(uid);
    const before = this.#kept.get(uid);
    const now = { record, identity };
    if (before !== undefined && resource !== "pods" && before.identity.generation !== identity.generation) {
      this.#changedMs.set(uid, atMs);
      this.#note(before.record, record, { atMs, by });
    }
    const isDeletion = identity.isDeleted === true || type === "DELETED";
    if (resource === "pods" && isDeletion && before !== undefined && before.identity.isDeleted !== true) {
      const pod = seenPod(recordingIn(record), this.#digester);
      if (pod !== undefined) this.#deletions.deleted(pod, atMs);
    }
    if (resource !== "pods" && identity.available !== undefined) this.#count(uid, { atMs, available: identity.available });
    if (type === "DELETED") this.#forget(uid);
    else this.#kept.set(uid, now);
  }

  seeEvidence(record: EvidenceRecord): void {
    const { atMs, resource, kind, type } = record;
    if (atMs > this.#untilMs) return;
    if (kind === "denied") return void this.#denied.add(resource);
    this.#heard.add(resource);
    const others = this.#others[resource];
    if (kind === "listed") return this.#listEnds(resource, (uid) => others.delete(uid), others);
    const identity = identityIn(record);
    const uid = identity?.uid;
    if (identity === undefined || uid === undefined) return;
    if (kind === "item") this.#lists(resource).add(uid);
    // An Event that expired in the API server is still evidence.
    if (type !== "DELETED") others.set(uid, { record, identity });
    else if (resource !== "events") others.delete(uid);
  }

  /** The state at `nowMs`; by default at the requested moment, or at the last record. */
  state({ nowMs = Math.min(this.#untilMs, this.#endMs), namespace }: StateOptions = {}): ClusterState {
    const digester = this.#digester;
    const kept = [...this.#kept.values()].filter(({ identity }) => namespace === undefined || namespaceIn(identity) === namespace);
    const owners = kept.flatMap(({ record }) =>
      record.resource === "pods" ? [] : (seenOwner(record.resource, recordingIn(record), digester) ?? []),
    );
    const podsKept = kept.filter(({ record }) => record.resource === "pods");
    const keptOf = Map.groupBy(podsKept, ({ identity }) => identity.ownerUid);
    const podsOf = memoized((uid: string | undefined) =>
      (keptOf.get(uid) ?? []).flatMap(({ record }) => seenPod(recordingIn(record), digester) ?? []),
    );
    const pods = memoized((_: undefined) => [...keptOf.keys()].flatMap(podsOf));
    const others = tableOf(EVIDENCE_RESOURCES, (resource) =>
      [...this.#others[resource].values()].flatMap(({ record, identity }) => {
        const isElsewhere = namespace !== undefined && resource !== "nodes" && namespaceIn(identity) !== namespace;
        return isElsewhere ? [] : (otherEvidence(resource, record.object ?? {}, digester) ?? []);
      }),
    ) as unknown as ClusterState["others"]; // each object belongs to its resource
    const events = Map.groupBy(others.events, ({ involvedObject: { uid } }) => uid);
    for (const each of events.values()) each.sort((a, b) => (lastOf(a) < lastOf(b) ? 1 : -1));
    return {
      ...{ nowMs, owners, others, sinceMs: this.#startMs },
      get pods() {
        return pods(undefined);
      },
      unknown: this.unknown,
      podsOf,
      eventsOf: (uid) => events.get(uid) ?? [],
      changesOf: (uid) => this.#changes.get(uid) ?? [],
      changedMsOf: (uid) => this.#changedMs.get(uid),
      availableOf: (uid) => this.#counts.get(uid) ?? [],
      deletionsOf: (uid) => this.#deletions.of(uid),
      startsOf: memoized((uid: string) => {
        const starts = new Map([[uid, [...(this.#starts.get(uid) ?? [])]]]);
        for (const { record } of keptOf.get(uid) ?? []) noteStart(starts, uid, () => record.object);
        return starts.get(uid) ?? [];
      }),
    };
  }

  /** Milliseconds since the epoch of the first and the last record. */
  get span(): { readonly startMs: number; readonly endMs: number } {
    return { startMs: this.#startMs, endMs: this.#endMs };
  }

  get unknown(): ReadonlySet<EvidenceResource> {
    return new Set(EVIDENCE_RESOURCES.filter((each) => this.#denied.has(each) || !this.#heard.has(each)));
  }

  /** The objects of the state in the API's own shape (api-objects.ts), by resource. */
  *apiObjects(): Generator<readonly [Resource, Json]> {
    for (const { record } of this.#kept.values()) {
      const object = apiObject(record.resource, recordingIn(record), this.#digester);
      if (object !== undefined) yield [record.resource, object];
    }
    for (const resource of EVIDENCE_RESOURCES)
      for (const { record } of this.#others[resource].values()) {
        const object = otherEvidence(resource, record.object ?? {}, this.#digester);
        if (object !== undefined) yield [resource, apiEvidence(resource, object)];
      }
  }

  #lists(resource: string): Set<string> {
    const known = this.#listed.get(resource) ?? new Set();
    this.#listed.set(resource, known);
    return known;
  }

  /** Treats objects that are missing in the list as deleted before the list. */
  #listEnds(resource: string, forget: (uid: string) => unknown, known: ReadonlyMap<string, unknown>): void {
    const shown = this.#listed.get(resource);
    this.#listed.delete(resource);
    if (resource === "events") return;
    for (const uid of known.keys()) if (shown?.has(uid) !== true) forget(uid);
  }

  #forget(uid: string): void {
    const last = this.#kept.get(uid);
    this.#kept.delete(uid);
    this.#counts.delete(uid);
    if (last?.record.resource === "pods") noteStart(this.#starts, last.identity.ownerUid, () => last.record.object);
  }

  #count(uid: string, now: AvailableCount): void {
    const counts = this.#counts.get(uid) ?? [];
    if (counts.at(-1)?.available === now.available) return;
    this.#counts.set(uid, counts);
    counts.push(now);
    if (counts.length > COUNTS_MAX) counts.shift();
  }

  #note(before: CaptureRecord, now: CaptureRecord, { atMs, by }: { readonly atMs: number; readonly by: string | undefined }): void {
    const [was, is] = [before, now].map((each) => seenOwner(each.resource, recordingIn(each), this.#digester));
    if (was === undefined || is === undefined) return;
    if (is.replicas < was.replicas) this.#deletions.scaledDown(is.uid, atMs);
    const changes = [...withCompletion(this.#changes.get(is.uid) ?? [], was), ...specChanges(was, is, { atMs, by })];
    this.#changes.set(is.uid, changes.slice(-CHANGES_MAX));
  }
}

function memoized<K, V>(of: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => {
    const value = known.has(key) ? (known.get(key) as V) : of(key); // the key is known
    known.set(key, value);
    return value;
  };
}

function noteStart(all: Map<string, number[]>, ownerUid: string | undefined, read: () => CapturedObject | undefined): void {
  if (ownerUid === undefined) return;
  const starts = all.get(ownerUid) ?? [];
  if (starts.length >= STARTS_MAX) return;
  const object = read();
  const ms = object && startMsOf(object);
  if (ms === undefined) return;
  all.set(ownerUid, starts);
  starts.push(ms);
}

function recordingIn(record: CaptureRecord): Recording {
  const { object = {}, evidence } = record.read?.() ?? record;
  return { object, evidence };
}

function namespaceIn({ key }: ObjectIdentity): string {
  return key.split("/")[0] ?? "";
}

function lastOf(event: EventEvidence): string {
  return textIn(event, "lastTimestamp") ?? "";
}
