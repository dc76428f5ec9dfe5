/**
 * The timeline of a running cluster: receives recorded changes and the decisions of deltaloop's controllers as they arrive.
 *
 * LT1 an object keeps its index, and its changes, sizes and marks are only appended, so that an update contains only new entries.
 * LT2 its history is bounded: when it is full, its owner starts a new one with the current objects.
 */
import { RecordReader } from "@deltaloop/replay/capture";
import { StateCensus, worstFirst } from "@deltaloop/replay/explain";
import type { Verdict } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import type { Mark, TimelineInput, TimelineObject, TimelineUpdate } from "@deltaloop/timeline/input";
import { concernedBy } from "./concerned.ts";
import { FindingTimes } from "./finding-times.ts";
import { TimelineCensus } from "./timeline-census.ts";
import type { Life } from "./life.ts";
import { decides } from "../describe.ts";
import { findingsIn, Indexes, objectOf, refusalsIn, syncMark, verdictIn } from "./timeline-parts.ts";

export interface LiveTimelineOptions {
  readonly source: string;
  readonly startMs: number;
  /** Keeps values and messages that may be secret. */
  readonly isWhole: boolean;
  /** The options of `explain` that reach the cluster. */
  readonly explainOptions?: string;
}

/** LT2: far below the limits of the census and the reader. */
const [CHANGES_MAX, RECORDS_MAX, SPAN_MS_MAX] = [50_000, 500_000, 12 * 3_600_000];
/** A sync may precede the record of its object. */
const EARLY_MS_MAX = 10_000;
/** Computing verdicts takes at most this share of the time. */
const [VERDICT_MS_MIN, VERDICT_SHARE, IDLE_VERDICT_MS] = [500, 20, 5_000];

type Placed = (indexes: Indexes) => Mark | undefined;

/** A mark whose object may not be known yet. */
interface Early {
  readonly atMs: number;
  readonly placed: Placed;
}

/** How much of an object has been sent. */
interface Sent {
  readonly changes: number;
  readonly sizes: number;
}

const NOTHING: Sent = { changes: 0, sizes: 0 };

export class LiveTimeline {
  readonly #source: string;
  readonly #startMs: number;
  readonly #isWhole: boolean;
  readonly #cluster: NonNullable<TimelineInput["cluster"]>;
  readonly #census: TimelineCensus;
  readonly #state: StateCensus;
  readonly #times: FindingTimes;
  readonly #reader: RecordReader;
  readonly #indexes = new Indexes();
  readonly #orphans = new Map<string, Set<Life>>();
  readonly #lives: Life[] = [];
  readonly #marks: Mark[] = [];
  #early: Early[] = [];
  #verdicts: readonly Verdict[] = [];
  #verdictAtMs = -Infinity;
  #verdictTookMs = 0;
  #isChanged = true;
  readonly #sent = new Map<Life, Sent>();
  #sentGaps = 0;
  #changes = 0;
  #records = 0;

  constructor({ source, startMs, isWhole, explainOptions }: LiveTimelineOptions) {
    [this.#source, this.#startMs, this.#isWhole] = [source, startMs, isWhole];
    this.#cluster = explainOptions === undefined ? {} : { options: explainOptions };
    const digester = createDigester("explain".padEnd(32), ALL_RELEASES);
    [this.#census, this.#state] = [new TimelineCensus(digester, { isWhole }), new StateCensus(digester)];
    this.#times = new FindingTimes(this.#state);
    this.#census.begin(startMs);
    const evidence = (record: Parameters<StateCensus["seeEvidence"]>[0]): void => {
      this.#state.seeEvidence(record);
      this.#census.seeEvidence(record);
      this.#isChanged = true;
    };
    this.#reader = new RecordReader("the API server", 2 * RECORDS_MAX, () => undefined, { evidence });
  }

  /** Processes one line of a recorder. */
  hear(line: string): void {
    const record = this.#reader.record(line, ++this.#records, false);
    if (record === undefined) return;
    this.#state.see(record);
    this.#census.see(record);
    this.#isChanged = true;
  }

  sync(sync: ReplayedSync): void {
    if (!decides(sync)) return;
    const span = { startMs: this.#startMs, endMs: Infinity };
    this.#place(sync.atMs, (indexes) => {
      const object = indexes.synced(sync);
      return object === undefined ? undefined : syncMark({ kind: "sync", atMs: sync.atMs, sync, recorded: [] }, object, span);
    });
  }

  /** Adds a mark to a named object, for example a verdict of shadow mode. */
  mark(
    { kind, namespace, name }: Pick<TimelineObject, "kind" | "namespace" | "name">,
    atMs: number,
    mark: Omit<Mark, "object" | "at">,
  ): void {
    this.#place(atMs, (indexes) => {
      const object = indexes.named(kind, namespace, name);
      return object === undefined ? undefined : { ...mark, object, at: Math.max(0, atMs - this.#startMs) };
    });
  }

  #place(atMs: number, placed: Placed): void {
    this.#early.push({ atMs, placed });
  }

  /** Whether the history is full, so that its owner must start a new one (LT2). */
  isFull(nowMs: number): boolean {
    return this.#changes + this.#marks.length > CHANGES_MAX || this.#records > RECORDS_MAX || nowMs - this.#startMs > SPAN_MS_MAX;
  }

  /** Returns all data up to the last update. */
  whole(nowMs: number): TimelineInput {
    const span = { startMs: this.#startMs, endMs: nowMs };
    return {
      version: 1,
      ...{ source: this.#source, startMs: this.#startMs, endMs: nowMs - this.#startMs, redacted: !this.#isWhole, cluster: this.#cluster },
      objects: this.#lives.map((life) => this.#objectOf(life, NOTHING, this.#sent.get(life))),
      ...{ marks: this.#marks, gaps: this.#census.gaps.slice(0, this.#sentGaps) },
      ...this.#judged(span),
    };
  }

  /** Returns the new data since the last update. */
  update(nowMs: number): TimelineUpdate {
    const census = this.#census;
    const isJudged = this.#judge(nowMs);
    if (isJudged) this.#addConcerned();
    const events = census.newEvents();
    const touched = new Set(census.touched);
    census.touched.clear();
    for (const life of touched) this.#adopt(life, touched);
    const marks = [
      ...events.map(({ uid, ...event }) => ({ ...event, object: this.#indexes.of(uid) ?? 0 })), // the object is known
      ...refusalsIn(census.changes, this.#indexes, this.#startMs),
      ...this.#placedMarks(nowMs),
    ];
    this.#changes += census.changes.splice(0).length;
    this.#marks.push(...marks);
    const objects = [...touched].map((life) => {
      const object = this.#objectOf(life, this.#sent.get(life) ?? NOTHING);
      this.#sent.set(life, { changes: life.changes.length, sizes: life.sizes.length });
      return [this.#indexes.of(life.uid) ?? 0, object] as const; // the object is known
    });
    const gaps = census.gaps.slice(this.#sentGaps);
    this.#sentGaps = census.gaps.length;
    return {
      endMs: nowMs - this.#startMs,
      ...{ objects, marks, gaps },
      ...(isJudged && this.#judged({ startMs: this.#startMs, endMs: nowMs })),
    };
  }

  /** Gives a new object its index, and sets it as the owner of dependents that arrived earlier. */
  #adopt(life: Life, touched: Set<Life>): void {
    if (this.#indexes.of(life.uid) !== undefined) return;
    this.#indexes.add(life);
    this.#lives.push(life);
    for (const dependent of this.#orphans.get(life.uid) ?? []) touched.add(dependent);
    this.#orphans.delete(life.uid);
    if (life.owner === undefined || this.#indexes.of(life.owner) !== undefined) return;
    const others = this.#orphans.get(life.owner) ?? new Set();
    this.#orphans.set(life.owner, others.add(life));
  }

  /** Adds a row for each Node and ResourceQuota that a finding concerns. */
  #addConcerned(): void {
    for (const { subject, findings } of this.#verdicts)
      for (const named of findings.flatMap((finding) => concernedBy(finding, subject))) {
        const life = this.#census.concerned(named);
        if (life !== undefined && this.#indexes.of(life.uid) === undefined) this.#census.touched.add(life);
      }
  }

  #objectOf(life: Life, from: Sent, to?: Sent): TimelineObject {
    const object = objectOf(life, this.#indexes);
    return {
      ...object,
      changes: life.changes.slice(from.changes, to?.changes),
      ...(object.sizes && { sizes: life.sizes.slice(from.sizes, to?.sizes) }),
    };
  }

  #placedMarks(nowMs: number): readonly Mark[] {
    const early: Early[] = [];
    const marks = this.#early.flatMap((each) => {
      const mark = each.placed(this.#indexes);
      if (mark === undefined && nowMs - each.atMs < EARLY_MS_MAX) early.push(each);
      return mark ?? [];
    });
    this.#early = early;
    return marks;
  }

  /** Verdicts also change as time passes. @returns whether it computed them */
  #judge(nowMs: number): boolean {
    const sinceMs = nowMs - this.#verdictAtMs;
    const isDue = sinceMs >= Math.max(VERDICT_MS_MIN, VERDICT_SHARE * this.#verdictTookMs);
    if (!isDue || !(this.#isChanged || sinceMs >= IDLE_VERDICT_MS)) return false;
    const begun = performance.now();
    this.#verdicts = worstFirst(this.#state.state({ nowMs }));
    this.#times.note(this.#verdicts, nowMs);
    [this.#verdictAtMs, this.#verdictTookMs, this.#isChanged] = [nowMs, performance.now() - begun, false];
    return true;
  }

  #judged(span: { readonly startMs: number; readonly endMs: number }): Pick<TimelineInput, "verdicts" | "findings"> {
    return {
      verdicts: this.#verdicts.flatMap((verdict) => verdictIn(verdict, this.#indexes) ?? []),
      findings: findingsIn(this.#verdicts, this.#times, { indexes: this.#indexes, marks: this.#marks, span }),
    };
  }
}
