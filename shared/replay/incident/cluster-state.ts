/**
 * The objects of a cluster at one moment, and earlier changes. Built during the first read of a capture, so that the verdict needs no
 * replay, or from one read of a live API server.
 *
 * IS1 only the newest recording of each existing object is kept; it is projected when the state is requested.
 * IS2 at most `CHANGES_MAX` changes of an owner's spec are kept, and of a former pod only the time it took to become ready.
 */
import { tableOf, EVIDENCE_RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource, EvidenceResource, Resource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { CapturedObject, CaptureRecord, EvidenceRecord } from "../capture-format/capture.ts";
import type { Census } from "../capture-format/capture-stream.ts";
import { keyOf, ownerUidOf, uidOf } from "../capture-format/captured-object.ts";
import { textIn } from "../evidence/fields.ts";
import type { Json } from "../evidence/fields.ts";
import type { EventEvidence, EvidenceObjects } from "../evidence/other-evidence.ts";
import { otherEvidence } from "../evidence/other-evidence.ts";
import { apiEvidence, apiObject } from "./api-objects.ts";
import { generationOf, seenOwner, seenPod, startMsOf } from "./seen.ts";
import type { Recording, SeenOwner, SeenPod } from "./seen.ts";
import { specChanges } from "./spec-changes.ts";
import type { SpecChange } from "./spec-changes.ts";

export interface ClusterState {
  readonly nowMs: number;
  /** Changes are known from this time on; undefined: none are known. */
  readonly sinceMs?: number;
  readonly owners: readonly SeenOwner[];
  readonly pods: readonly SeenPod[];
  readonly others: { readonly [R in EvidenceResource]: readonly EvidenceObjects[R][] };
  /** Resources that the user may not read, or that the capture does not hold. */
  readonly unknown: ReadonlySet<EvidenceResource>;
  podsOf(ownerUid: string): readonly SeenPod[];
  /** Newest first. */
  eventsOf(uid: string): readonly EventEvidence[];
  changesOf(uid: string): readonly SpecChange[];
  /** How long earlier pods of the owner took to become ready. */
  startsOf(ownerUid: string): readonly number[];
}

interface StateOptions {
  readonly nowMs?: number;
  /** Skips objects of other namespaces, because projecting them takes time. */
  readonly namespace?: string | undefined;
}

const [CHANGES_MAX, STARTS_MAX] = [50, 100];

interface Kept extends Recording {
  readonly resource: CachedResource;
}

export class StateCensus implements Census {
  readonly #untilOf: (startMs: number) => number;
  #untilMs = Infinity;
  readonly #digester: Digester;
  #kept = new Map<string, Kept>();
  #others = tableOf(EVIDENCE_RESOURCES, () => new Map<string, CapturedObject>());
  #listed = new Map<string, Set<string>>();
  #changes = new Map<string, SpecChange[]>();
  #starts = new Map<string, number[]>();
  #heard = new Set<EvidenceResource>();
  #denied = new Set<EvidenceResource>();
  #startMs = Infinity;
  /** Time of the capture's last record. */
  #endMs = -Infinity;

  /** @param untilOf the time after which records are not part of the state, from the time of the first record */
  constructor(digester: Digester, untilOf: (startMs: number) => number = () => Infinity) {
    [this.#digester, this.#untilOf] = [digester, untilOf];
  }

  begin(): void {
    [this.#kept, this.#listed, this.#changes, this.#starts] = [new Map(), new Map(), new Map(), new Map()];
    this.#others = tableOf(EVIDENCE_RESOURCES, () => new Map<string, CapturedObject>());
    [this.#heard, this.#denied, this.#startMs, this.#endMs] = [new Set(), new Set(), Infinity, -Infinity];
  }

  see({ atMs, resource, kind, type, object, evidence, by }: CaptureRecord): void {
    if (this.#startMs === Infinity) this.#untilMs = this.#untilOf(atMs);
    [this.#startMs, this.#endMs] = [Math.min(this.#startMs, atMs), Math.max(this.#endMs, atMs)];
    if (atMs > this.#untilMs) return;
    if (kind === "listed")
      return this.#listEnds(resource, (uid) => this.#kept.get(uid)?.resource === resource && this.#forget(uid), this.#kept);
    const uid = object && uidOf(object);
    if (object === undefined || uid === undefined || type === "BOOKMARK" || type === "ERROR") return;
    if (kind === "item") this.#lists(resource).add(uid);
    const before = this.#kept.get(uid);
    const now = { resource, object, evidence };
    if (before !== undefined && resource !== "pods" && generationOf(before.object) !== generationOf(object))
      this.#note(before, now, { atMs, by });
    if (type === "DELETED") this.#forget(uid);
    else this.#kept.set(uid, now);
  }

  seeEvidence({ atMs, resource, kind, type, object }: EvidenceRecord): void {
    if (atMs > this.#untilMs) return;
    if (kind === "denied") return void this.#denied.add(resource);
    this.#heard.add(resource);
    const others = this.#others[resource];
    if (kind === "listed") return this.#listEnds(resource, (uid) => others.delete(uid), others);
    const uid = object && uidOf(object);
    if (object === undefined || uid === undefined || type === "BOOKMARK" || type === "ERROR") return;
    if (kind === "item") this.#lists(resource).add(uid);
    // An Event that expired in the API server is still evidence.
    if (type !== "DELETED") others.set(uid, object);
    else if (resource !== "events") others.delete(uid);
  }

  /** By default the state at the requested moment, or at the last record. */
  state({ nowMs = Math.min(this.#untilMs, this.#endMs), namespace }: StateOptions = {}): ClusterState {
    const digester = this.#digester;
    const [owners, pods]: [SeenOwner[], SeenPod[]] = [[], []];
    for (const { resource, ...recording } of this.#kept.values()) {
      if (namespace !== undefined && namespaceIn(recording.object) !== namespace) continue;
      const pod = resource === "pods" ? seenPod(recording, digester) : undefined;
      const owner = resource === "pods" ? undefined : seenOwner(resource, recording, digester);
      if (pod !== undefined) pods.push(pod);
      if (owner !== undefined) owners.push(owner);
    }
    const others = tableOf(EVIDENCE_RESOURCES, (resource) =>
      [...this.#others[resource].values()].flatMap((object) => {
        const isElsewhere = namespace !== undefined && resource !== "nodes" && namespaceIn(object) !== namespace;
        return isElsewhere ? [] : (otherEvidence(resource, object, digester) ?? []);
      }),
    ) as unknown as ClusterState["others"]; // each object belongs to its resource
    const podsOf = Map.groupBy(pods, ({ ownerUid }) => ownerUid);
    const events = Map.groupBy(others.events, ({ involvedObject: { uid } }) => uid);
    for (const each of events.values()) each.sort((a, b) => (lastOf(a) < lastOf(b) ? 1 : -1));
    const starts = new Map([...this.#starts].map(([uid, times]) => [uid, [...times]]));
    for (const pod of pods) noteStart(starts, pod.ownerUid, this.#kept.get(pod.uid)?.object);
    return {
      ...{ nowMs, owners, pods, others, sinceMs: this.#startMs },
      unknown: this.unknown,
      podsOf: (uid) => podsOf.get(uid) ?? [],
      eventsOf: (uid) => events.get(uid) ?? [],
      changesOf: (uid) => this.#changes.get(uid) ?? [],
      startsOf: (uid) => starts.get(uid) ?? [],
    };
  }

  get unknown(): ReadonlySet<EvidenceResource> {
    return new Set(EVIDENCE_RESOURCES.filter((each) => this.#denied.has(each) || !this.#heard.has(each)));
  }

  /** The objects of the state in the API's own shape (api-objects.ts), by resource. */
  *apiObjects(): Generator<readonly [Resource, Json]> {
    for (const { resource, ...recording } of this.#kept.values()) {
      const object = apiObject(resource, recording, this.#digester);
      if (object !== undefined) yield [resource, object];
    }
    for (const resource of EVIDENCE_RESOURCES)
      for (const recorded of this.#others[resource].values()) {
        const object = otherEvidence(resource, recorded, this.#digester);
        if (object !== undefined) yield [resource, apiEvidence(resource, object)];
      }
  }

  #lists(resource: string): Set<string> {
    const known = this.#listed.get(resource) ?? new Set();
    this.#listed.set(resource, known);
    return known;
  }

  /** Treats objects that the list lacks as deleted before it. */
  #listEnds(resource: string, forget: (uid: string) => unknown, known: ReadonlyMap<string, unknown>): void {
    const shown = this.#listed.get(resource);
    this.#listed.delete(resource);
    if (resource === "events") return;
    for (const uid of known.keys()) if (shown?.has(uid) !== true) forget(uid);
  }

  #forget(uid: string): void {
    const last = this.#kept.get(uid);
    this.#kept.delete(uid);
    if (last?.resource === "pods") noteStart(this.#starts, ownerUidOf(last.object), last.object);
  }

  #note(before: Kept, now: Kept, { atMs, by }: { readonly atMs: number; readonly by: string | undefined }): void {
    const [was, is] = [before, now].map(({ resource, ...recording }) => seenOwner(resource, recording, this.#digester));
    if (was === undefined || is === undefined) return;
    const changes = this.#changes.get(is.uid) ?? [];
    this.#changes.set(is.uid, changes);
    changes.push(...specChanges(was, is, { atMs, by }));
    changes.splice(0, changes.length - CHANGES_MAX);
  }
}

function noteStart(all: Map<string, number[]>, ownerUid: string | undefined, object: CapturedObject | undefined): void {
  const ms = object && startMsOf(object);
  if (ownerUid === undefined || ms === undefined) return;
  const starts = all.get(ownerUid) ?? [];
  all.set(ownerUid, starts);
  if (starts.length < STARTS_MAX) starts.push(ms);
}

function namespaceIn(object: CapturedObject): string {
  return keyOf(object).split("/")[0] ?? "";
}

function lastOf(event: EventEvidence): string {
  return textIn(event, "lastTimestamp") ?? "";
}
