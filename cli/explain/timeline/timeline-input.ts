/** The input of the timeline page: what the verdicts, the changes and a replay of the capture show. */
import type { Capture } from "@deltaloop/replay/capture";
import { storyOf } from "@deltaloop/replay/explain";
import type { Entry, ObjectChange, Subject, Verdict } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Mark, TimelineFinding, TimelineInput, TimelineObject, TimelineVerdict } from "@deltaloop/timeline/input";
import { asJson, decisionsOf } from "../explain-text.ts";
import { changeText, clockOf, effectText } from "../verdict-text.ts";
import type { FindingTimes } from "./finding-times.ts";
import type { Life, TimelineCensus } from "./timeline-census.ts";

interface Sources {
  readonly source: string;
  readonly capture: Capture;
  readonly census: TimelineCensus;
  readonly verdicts: readonly Verdict[];
  readonly times: FindingTimes;
  readonly syncs: readonly ReplayedSync[];
  readonly isWhole: boolean;
  /** Only its owner tree. */
  readonly subject: Subject | undefined;
  readonly namespace: string | undefined;
}

export function timelineInput({ source, capture, census, verdicts, times, syncs, isWhole, subject, namespace }: Sources): TimelineInput {
  const { startMs, endMs } = capture;
  const events = census.events();
  const lives = inOrder([...census.lives.values()], verdicts).filter(
    (life) => (namespace === undefined || life.namespace === namespace) && (subject === undefined || isPartOf(life, subject, census)),
  );
  const indexes = new Map(lives.map(({ uid }, index) => [uid, index]));
  const places = new Map(lives.map(({ kind, namespace: of, name }, index) => [placeOf(kind, of, name), index]));
  const indexOf = (kind: string, of: string, name: string): number | undefined => places.get(placeOf(kind, of, name));
  const workloadOf = ({ resource, namespace: of, name }: Verdict["subject"]): number | undefined =>
    indexOf(resource.slice(0, -1), of, name);
  const findingOf = (of: Verdict["subject"], finding: Verdict["findings"][number], fromMs: number): TimelineFinding | undefined => {
    const workload = workloadOf(of);
    return workload === undefined
      ? undefined
      : {
          ...{ workload, level: finding.level, cause: finding.words.cause, confidence: finding.confidence },
          objects: finding.objects.flatMap((each) => indexOf(...splitName(each, of.namespace)) ?? []),
          ...{ evidence: finding.evidence, help: finding.words.help ?? [] },
          from: Math.max(0, fromMs - startMs),
        };
  };
  const current = verdicts.flatMap(({ subject: of, findings }) =>
    findings.flatMap((finding) => findingOf(of, finding, times.fromMs(of, finding) ?? endMs) ?? []),
  );
  const over = times.over(verdicts).flatMap(({ subject: of, finding, fromMs, lastMs }) => {
    const found = findingOf(of, finding, fromMs);
    return found === undefined ? [] : [{ ...found, until: lastMs - startMs }];
  });
  return {
    version: 1,
    ...{ source, startMs, endMs: endMs - startMs, redacted: !isWhole },
    objects: lives.map((life) => objectOf(life, indexes)),
    marks: [
      ...events.flatMap(({ uid, ...event }) => {
        const object = indexes.get(uid);
        return object === undefined || event.at > endMs - startMs ? [] : [{ ...event, object }];
      }),
      ...refusalsIn(census.changes, indexes, startMs),
      ...syncMarks(storiesOf(lives, census, syncs), indexOf, capture),
    ].toSorted((a, b) => a.at - b.at),
    verdicts: verdicts.flatMap((verdict) => verdictIn(verdict, workloadOf(verdict.subject)) ?? []),
    findings: [...current.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level)), ...over],
    gaps: census.gaps,
  };
}

const LEVELS: readonly TimelineFinding["level"][] = ["cause", "wait", "effect"];

function placeOf(kind: string, namespace: string, name: string): string {
  return `${kind.toLowerCase()} ${namespace}/${name}`;
}

/** `pod/web-7f8fb-x2x4z`, as findings name objects. */
function splitName(text: string, namespace: string): readonly [kind: string, namespace: string, name: string] {
  const [kind = "", name = ""] = text.split("/");
  return [kind, namespace, name];
}

/** Workloads worst first, each before its ReplicaSets, newest first, and these before their pods. */
function inOrder(lives: readonly Life[], verdicts: readonly Verdict[]): readonly Life[] {
  const uids = new Set(lives.map(({ uid }) => uid));
  const dependents = Map.groupBy(lives, ({ owner }) => (owner !== undefined && uids.has(owner) ? owner : undefined));
  const ranks = new Map(verdicts.map(({ subject: { resource, namespace, name } }, rank) => [`${resource} ${namespace}/${name}`, rank]));
  const rankOf = ({ resource, namespace, name }: Life): number => ranks.get(`${resource} ${namespace}/${name}`) ?? Infinity;
  const byRank = (a: Life, b: Life): number => (rankOf(a) === rankOf(b) ? a.from - b.from : rankOf(a) - rankOf(b));
  const roots = (dependents.get(undefined) ?? []).toSorted(byRank);
  const newestFirst = (a: Life, b: Life): number => (b.revision ?? 0) - (a.revision ?? 0) || a.from - b.from;
  const below = (life: Life): readonly Life[] => [life, ...(dependents.get(life.uid) ?? []).toSorted(newestFirst).flatMap(below)];
  return roots.flatMap(below);
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

function objectOf(life: Life, indexes: ReadonlyMap<string, number>): TimelineObject {
  const { kind, namespace, name, owner, from, until, revision, images, node, states, sizes, restarts, changes } = life;
  const ownerIndex = owner === undefined ? undefined : indexes.get(owner);
  return {
    ...{ kind, namespace, name, from, changes },
    ...(ownerIndex !== undefined && { owner: ownerIndex }),
    ...(until !== undefined && { until }),
    ...(revision !== undefined && { revision }),
    ...(images !== undefined && { images }),
    ...(node !== undefined && { node }),
    ...(kind === "Pod" ? { states, restarts } : { sizes }),
  };
}

/** The condition ReplicaFailure of an owner: the API server refuses its pods. */
function refusalsIn(changes: readonly ObjectChange[], indexes: ReadonlyMap<string, number>, startMs: number): readonly Mark[] {
  return changes.flatMap(({ uid, atMs, differences }): readonly Mark[] => {
    const failure = differences.find(({ field, to }) => field === "ReplicaFailure" && to?.startsWith("True") === true);
    const object = indexes.get(uid);
    if (failure === undefined || object === undefined) return [];
    const title = `pods refused: ${failure.to?.replace(/^True \((.*)\)$/, "$1")}`;
    return [{ ...{ kind: "refusal", at: atMs - startMs, object, title, isWarning: true }, ...(failure.says && { lines: [failure.says] }) }];
  });
}

/** The story of each workload that has no owner. */
function storiesOf(lives: readonly Life[], census: TimelineCensus, syncs: readonly ReplayedSync[]): readonly (readonly Entry[])[] {
  const rootOf = (uid: string): Life | undefined => ownersOf(census.lives.get(uid), census).at(-1);
  const changes = Map.groupBy(census.changes, ({ uid }) => rootOf(uid));
  const uids = new Map(lives.map(({ resource, namespace, name, uid }) => [`${resource} ${namespace}/${name}`, uid]));
  const bySubject = Map.groupBy(syncs, ({ controller, key }) => rootOf(uids.get(`${CONTROLLER_INFO[controller].primary} ${key}`) ?? ""));
  return [...bySubject].flatMap(([root, own]) => (root === undefined ? [] : [storyOf(root, changes.get(root) ?? [], own)]));
}

function syncMarks(
  stories: readonly (readonly Entry[])[],
  indexOf: (kind: string, namespace: string, name: string) => number | undefined,
  { startMs, endMs }: Capture,
): readonly Mark[] {
  return stories.flatMap((entries) =>
    entries.flatMap((entry): readonly Mark[] => {
      if (entry.kind === "change" || (entry.sync.error === undefined && !entry.sync.lines.some(({ kind }) => kind === "decided")))
        return [];
      const { controller, key, error } = entry.sync;
      const [namespace = "", name = ""] = key.split("/");
      const object = indexOf(CONTROLLER_INFO[controller].primary.slice(0, -1), namespace, name);
      if (object === undefined || entry.atMs > endMs) return [];
      const lines = decisionsOf(entry, { endMs, all: false, refusals: new Set() }).map((line) => line.replace(/^→ /, ""));
      const reasons = asJson(entry, startMs) as { readonly reasons: readonly { readonly words: string; readonly section?: string }[] }; // of a sync
      return [
        {
          ...{
            kind: "sync",
            at: entry.atMs - startMs,
            object,
            title: lines[0]?.split(";")[0] ?? "",
            by: `${controller} controller`,
            lines,
          },
          reasons: reasons.reasons.map(({ words, section }) => ({ text: words, ...(section !== undefined && { rule: section }) })),
          ...(error !== undefined && { isWarning: true }),
        },
      ];
    }),
  );
}

function verdictIn(verdict: Verdict, object: number | undefined): TimelineVerdict | undefined {
  if (object === undefined) return undefined;
  const clock = clockOf(verdict.atMs);
  return {
    ...{ object, health: verdict.health, effect: effectText(verdict) },
    changed: verdict.changes.map((change) => changeText(change, clock)),
    waits: verdict.waits.map(({ words, untilMs }) => `${words}${untilMs === undefined ? "" : ` by ${clock(untilMs)}`}`),
  };
}
