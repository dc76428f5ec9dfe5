/** Collects the history of all objects of a capture during its first read. */
import { UsageError } from "@deltaloop/base";
import { RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { CaptureRecord, Census, EvidenceRecord } from "@deltaloop/replay/capture";
import { ChangeTracker, messageText, otherEvidence, requestedDifferences, seenOwner, seenPod } from "@deltaloop/replay/explain";
import type { ObjectChange, Recording } from "@deltaloop/replay/explain";
import type { Gap, Kind, Mark } from "@deltaloop/timeline/input";
import { Concerned } from "./concerned.ts";
import { differencesOf, wholeDifferences } from "./differences.ts";
import type { Life } from "./life.ts";
import { podStateOf } from "./pod-state.ts";

/** Evidence is read ahead of the records, so its time is absolute. */
interface EventMark extends Omit<Mark, "object" | "at"> {
  readonly uid: string;
  readonly atMs: number;
}

/** A larger page would not open. */
const CHANGES_MAX = 100_000;
/** Events that may arrive before their objects. */
const EARLY_MAX = 10_000;
const REFUSALS = /^(?:FailedCreate|FailedDelete|ReplicaSetCreateError)$/;
const WHAT = { stands: "exists", appears: "created", changes: "changed", goes: "deleted" } as const;

export class TimelineCensus implements Census {
  readonly #digester: Digester;
  readonly #isWhole: boolean;
  #tracker: ChangeTracker;
  #startMs = Infinity;
  #lastMs = new Map<CachedResource, number>();
  #listed = new Set<CachedResource>();
  readonly lives = new Map<string, Life>();
  /** Objects changed since the last update; the sender of updates empties it. */
  readonly touched = new Set<Life>();
  #concerned: Concerned;
  #events: EventMark[] = [];
  readonly gaps: Gap[] = [];
  readonly changes: ObjectChange[] = [];

  /** @param options.isWhole whether to keep values and messages that may be secret */
  constructor(digester: Digester, { isWhole }: { readonly isWhole: boolean }) {
    [this.#digester, this.#isWhole, this.#tracker] = [digester, isWhole, new ChangeTracker(digester)];
    this.#concerned = new Concerned(digester);
  }

  /** Starts a new read. @param startMs by default the time of the first record */
  begin(startMs = Infinity): void {
    [this.#tracker, this.#startMs, this.#lastMs, this.#listed] = [new ChangeTracker(this.#digester), startMs, new Map(), new Set()];
    this.#concerned = new Concerned(this.#digester);
    this.lives.clear();
    this.touched.clear();
    for (const list of [this.#events, this.gaps, this.changes]) list.splice(0);
  }

  see(record: CaptureRecord): void {
    const { atMs, resource, kind, object, evidence, type } = record;
    this.#startMs = Math.min(this.#startMs, atMs);
    this.#noteGap(record);
    for (const change of this.#tracker.of(record)) this.#note(change, object && { object, evidence });
    if (kind === "listed" || object === undefined || type === "BOOKMARK" || type === "ERROR") return;
    const recording = { object, evidence };
    if (type !== "DELETED") this.#step(resource, recording, atMs - this.#startMs);
  }

  seeEvidence(record: EvidenceRecord): void {
    const { atMs, resource, kind, type, object } = record;
    const concerned = this.#concerned.see(record, this.#startMs);
    if (concerned !== undefined) this.touched.add(concerned);
    if (resource !== "events" || object === undefined || type === "DELETED" || type === "BOOKMARK") return;
    const event = otherEvidence("events", object, this.#digester);
    const uid = event?.involvedObject.uid;
    if (event === undefined || uid === undefined) return;
    const { reason, message, count, source } = event;
    const lastMs = Date.parse(event.lastTimestamp ?? "");
    const text = this.#isWhole && typeof object["message"] === "string" ? object["message"] : messageText(message);
    this.#events.push({
      ...{
        uid,
        atMs: kind === "item" && !Number.isNaN(lastMs) ? lastMs : atMs,
        title: reason,
        kind: REFUSALS.test(reason) ? "refusal" : "event",
      },
      ...(event.type === "Warning" && { isWarning: true }),
      ...(source.component !== undefined && { by: source.component }),
      lines: [...(text === undefined ? [] : [text]), ...(count > 1 ? [`${count} times`] : [])],
    });
  }

  /** The row of a Node or ResourceQuota that a finding concerns. */
  concerned(named: Parameters<Concerned["row"]>[0]): Life | undefined {
    return this.#concerned.row(named, this.#startMs);
  }

  /** Returns the Events of known objects since the last call, by uid. Events that begin or end a pull also change the state of the pod. */
  newEvents(): readonly (Omit<Mark, "object"> & { readonly uid: string })[] {
    const isKnown = ({ uid }: EventMark): boolean => this.lives.has(uid);
    const events = this.#events.filter(isKnown).map(({ atMs, ...event }) => ({ ...event, at: Math.max(0, atMs - this.#startMs) }));
    this.#events = this.#events.filter((event) => !isKnown(event)).slice(-EARLY_MAX);
    for (const { uid, title, at } of events.toSorted((a, b) => a.at - b.at)) {
      const life = this.lives.get(uid);
      const states = life?.states ?? [];
      const index = states.findLastIndex(([from]) => from <= at);
      const [wanted, next] = title === "Pulling" ? (["starting", "pulling"] as const) : (["pulling", "starting"] as const);
      if (life === undefined || !/^Pull(?:ing|ed)$/.test(title) || states[index]?.[1] !== wanted) continue;
      states.splice(index + 1, 0, [at, next]);
      this.touched.add(life);
    }
    return events;
  }

  /** A later list closes a gap in the watch. */
  #noteGap({ atMs, resource, kind }: CaptureRecord): void {
    if (kind === "item") return;
    const lastMs = this.#lastMs.get(resource);
    this.#lastMs.set(resource, atMs);
    if (kind !== "listed") return;
    if (this.#listed.has(resource) && lastMs !== undefined && lastMs < atMs)
      this.gaps.push({ from: lastMs - this.#startMs, until: atMs - this.#startMs, resource });
    this.#listed.add(resource);
  }

  #note(change: ObjectChange, recording: Recording | undefined): void {
    if (this.changes.push(change) > CHANGES_MAX)
      throw new UsageError(`the capture has more than ${CHANGES_MAX} changes, too many for a page: rotate it, or record one namespace`);
    const { kind, resource, owner, by, atMs } = change;
    const at = atMs - this.#startMs;
    const life = this.#lifeOf(change, kind === "stands" ? 0 : at);
    life.owner ??= owner;
    this.touched.add(life);
    if (kind === "goes") life.until = at;
    const seen = recording && resource !== "pods" ? seenOwner(resource, recording, this.#digester) : undefined;
    const whole = this.#isWhole && life.last && recording ? wholeDifferences(life.last.object, recording.object) : [];
    const { differences, manager } = differencesOf(change, life.seen, seen);
    const isRequest = owner === undefined && (kind !== "changes" || requestedDifferences(change).length > 0);
    const writer = by ?? (isRequest ? manager : undefined);
    life.changes.push({
      ...{ at, what: WHAT[kind], differences: [...differences, ...whole] },
      ...(writer !== undefined && { by: writer }),
      ...(isRequest && kind !== "stands" && { isRequest }),
    });
  }

  #lifeOf({ uid, resource, namespace, name, owner }: ObjectChange, from: number): Life {
    const known = this.lives.get(uid);
    if (known !== undefined) return known;
    const kind = RESOURCES[resource].kind as Kind; // the resource is a cached one
    const life: Life = {
      ...{ resource, kind, namespace, name, uid, owner, from },
      ...{ states: [], sizes: [], restarts: [], restartCount: 0, changes: [] },
    };
    this.lives.set(uid, life);
    return life;
  }

  #step(resource: CachedResource, recording: Recording, at: number): void {
    const digester = this.#digester;
    if (resource === "pods") {
      const pod = seenPod(recording, digester);
      const life = this.lives.get(pod?.uid ?? "");
      if (pod === undefined || life === undefined) return;
      this.touched.add(life);
      [life.last, life.node] = [recording, pod.spec.nodeName];
      const restarts = pod.status.containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0);
      if (restarts > life.restartCount && life.states.length > 0) life.restarts.push(at);
      life.restartCount = restarts;
      const [state, reason] = podStateOf(pod);
      const before = life.states.at(-1);
      if (before?.[1] !== state || before[2] !== reason) life.states.push(reason === undefined ? [at, state] : [at, state, reason]);
      return;
    }
    const owner = seenOwner(resource, recording, digester);
    const life = this.lives.get(owner?.uid ?? "");
    if (owner === undefined || life === undefined) return;
    this.touched.add(life);
    [life.last, life.seen, life.revision] = [recording, owner, owner.revision];
    if (owner.template !== undefined) life.images = owner.template.containers.flatMap(({ image }) => image ?? []);
    const { replicas, status } = owner;
    const before = life.sizes.at(-1);
    const sizes = [replicas, status.ready, status.available] as const;
    if (before === undefined || sizes.some((size, index) => before[index + 1] !== size)) life.sizes.push([at, ...sizes]);
  }
}
