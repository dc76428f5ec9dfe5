/** Builds the input of the timeline page from verdicts, changes and a replay of the capture. */
import type { Capture } from "@deltaloop/replay/capture";
import { storyOf } from "@deltaloop/replay/explain";
import type { Entry, Subject, Verdict } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Mark, TimelineInput } from "@deltaloop/timeline/input";
import { concernedBy } from "./concerned.ts";
import type { FindingTimes } from "./finding-times.ts";
import type { Life } from "./life.ts";
import type { TimelineCensus } from "./timeline-census.ts";
import { decides } from "../describe.ts";
import { findingsIn, Indexes, objectOf, refusalsIn, syncMark, verdictIn } from "./timeline-parts.ts";

interface Sources {
  readonly source: string;
  readonly capture: Capture;
  readonly census: TimelineCensus;
  readonly verdicts: readonly Verdict[];
  readonly times: FindingTimes;
  readonly syncs: readonly ReplayedSync[];
  readonly isWhole: boolean;
  /** Includes only this object's owner tree. */
  readonly subject: Subject | undefined;
  readonly namespace: string | undefined;
}

export function timelineInput({ source, capture, census, verdicts, times, syncs, isWhole, subject, namespace }: Sources): TimelineInput {
  const { startMs, endMs } = capture;
  const events = census.newEvents();
  const shown = [...census.lives.values()].filter(
    (life) => (namespace === undefined || life.namespace === namespace) && (subject === undefined || isPartOf(life, subject, census)),
  );
  const lives = inOrder(shown, verdicts, besideOf({ verdicts, times, census }));
  const indexes = new Indexes();
  for (const life of lives) indexes.add(life);
  const marks = [
    ...events.flatMap(({ uid, ...event }) => {
      const object = indexes.of(uid);
      return object === undefined || event.at > endMs - startMs ? [] : [{ ...event, object }];
    }),
    ...refusalsIn(census.changes, indexes, startMs),
    ...syncMarks(storiesOf(lives, census, syncs), indexes, capture),
  ].toSorted((a, b) => a.at - b.at);
  return {
    version: 1,
    ...{ source, startMs, endMs: endMs - startMs, redacted: !isWhole },
    objects: lives.map((life) => objectOf(life, indexes)),
    marks,
    verdicts: verdicts.flatMap((verdict) => verdictIn(verdict, indexes) ?? []),
    findings: findingsIn(verdicts, times, { indexes, marks, span: capture }),
    gaps: census.gaps,
  };
}

/** Groups Nodes and ResourceQuotas by the workload whose finding first names them. */
function besideOf({ verdicts, times, census }: Pick<Sources, "verdicts" | "times" | "census">): ReadonlyMap<string, readonly Life[]> {
  const current = verdicts.flatMap(({ subject, findings }) => findings.map((finding) => ({ subject, finding })));
  const owners = new Map<Life, string>();
  for (const { subject, finding } of [...current, ...times.over(verdicts)])
    for (const named of concernedBy(finding, subject)) {
      const life = census.concerned(named);
      if (life !== undefined && !owners.has(life)) owners.set(life, idOf(subject));
    }
  return Map.groupBy(owners.keys(), (life) => owners.get(life) ?? "");
}

function idOf({ resource, namespace, name }: Pick<Life, "resource" | "namespace" | "name">): string {
  return `${resource} ${namespace}/${name}`;
}

/**
 * Sorts the rows: workloads worst first, each followed by its ReplicaSets (newest first) with their pods, then by the Nodes and
 * ResourceQuotas of its findings.
 */
function inOrder(lives: readonly Life[], verdicts: readonly Verdict[], beside: ReadonlyMap<string, readonly Life[]>): readonly Life[] {
  const uids = new Set(lives.map(({ uid }) => uid));
  const dependents = Map.groupBy(lives, ({ owner }) => (owner !== undefined && uids.has(owner) ? owner : undefined));
  const ranks = new Map(verdicts.map(({ subject }, rank) => [idOf(subject), rank]));
  const rankOf = (life: Life): number => ranks.get(idOf(life)) ?? Infinity;
  const byRank = (a: Life, b: Life): number => (rankOf(a) === rankOf(b) ? a.from - b.from : rankOf(a) - rankOf(b));
  const roots = (dependents.get(undefined) ?? []).toSorted(byRank);
  const newestFirst = (a: Life, b: Life): number => (b.revision ?? 0) - (a.revision ?? 0) || a.from - b.from;
  const below = (life: Life): readonly Life[] => [life, ...(dependents.get(life.uid) ?? []).toSorted(newestFirst).flatMap(below)];
  return [...new Set(roots.flatMap((root) => [...below(root), ...(beside.get(idOf(root)) ?? [])]))]; // several roots may have the same name
}

/** The object and its recorded owners. A capture may contain a cycle of owners. */
function ownersOf(life: Life | undefined, { lives }: TimelineCensus): readonly Life[] {
  const chain = new Set<Life>();
  for (let each = life; each !== undefined && !chain.has(each); each = lives.get(each.owner ?? "")) chain.add(each);
  return [...chain];
}

function isPartOf(life: Life, subject: Subject, census: TimelineCensus): boolean {
  return ownersOf(life, census).some(
    ({ resource, namespace, name }) => resource === subject.resource && namespace === subject.namespace && name === subject.name,
  );
}

/** The history of each workload without an owner. */
function storiesOf(lives: readonly Life[], census: TimelineCensus, syncs: readonly ReplayedSync[]): readonly (readonly Entry[])[] {
  const rootOf = (uid: string): Life | undefined => ownersOf(census.lives.get(uid), census).at(-1);
  const changes = Map.groupBy(census.changes, ({ uid }) => rootOf(uid));
  const uids = new Map(lives.map((life) => [idOf(life), life.uid]));
  const bySubject = Map.groupBy(syncs, ({ controller, key }) => rootOf(uids.get(`${CONTROLLER_INFO[controller].primary} ${key}`) ?? ""));
  return [...bySubject].flatMap(([root, own]) => (root === undefined ? [] : [storyOf(root as Subject, changes.get(root) ?? [], own)])); // no Node owns an object
}

function syncMarks(stories: readonly (readonly Entry[])[], indexes: Indexes, capture: Capture): readonly Mark[] {
  return stories.flatMap((entries) =>
    entries.flatMap((entry): readonly Mark[] => {
      if (entry.kind === "change" || entry.atMs > capture.endMs || !decides(entry.sync)) return [];
      const object = indexes.synced(entry.sync);
      return object === undefined ? [] : [syncMark(entry, object, capture)];
    }),
  );
}
