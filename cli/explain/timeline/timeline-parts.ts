/** The parts of a timeline's input, for a capture or a running cluster. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Entry, ObjectChange, Verdict } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import type { Mark, TimelineFinding, TimelineObject, TimelineVerdict } from "@deltaloop/timeline/input";
import { decisionsOf, reasonsOf } from "../explain-text.ts";
import type { Span } from "../explain-text.ts";
import { changeText, clockOf, effectText } from "../verdict-text.ts";
import type { FindingTimes } from "./finding-times.ts";
import type { Life } from "./timeline-census.ts";

/** Indexes of the objects by uid and by name; of several objects with one name the latest counts. */
export class Indexes {
  readonly #uids = new Map<string, number>();
  readonly #names = new Map<string, number>();

  /** Adds an object. Returns its index. */
  add({ uid, kind, namespace, name }: Life): number {
    const index = this.#uids.size;
    this.#uids.set(uid, index);
    this.#names.set(nameOf(kind, namespace, name), index);
    return index;
  }

  of(uid: string | undefined): number | undefined {
    return this.#uids.get(uid ?? "");
  }

  named(kind: string, namespace: string, name: string): number | undefined {
    return this.#names.get(nameOf(kind, namespace, name));
  }

  workload({ resource, namespace, name }: Verdict["subject"]): number | undefined {
    return this.named(resource.slice(0, -1), namespace, name);
  }

  synced({ controller, key }: ReplayedSync): number | undefined {
    const [namespace = "", name = ""] = key.split("/");
    return this.named(CONTROLLER_INFO[controller].primary.slice(0, -1), namespace, name);
  }
}

function nameOf(kind: string, namespace: string, name: string): string {
  return `${kind.toLowerCase()} ${namespace}/${name}`;
}

const LEVELS: readonly TimelineFinding["level"][] = ["cause", "wait", "effect"];

/** Causes first; findings that the verdicts no longer show last. */
export function findingsIn(
  verdicts: readonly Verdict[],
  times: FindingTimes,
  indexes: Indexes,
  { startMs, endMs }: Span,
): readonly TimelineFinding[] {
  const findingOf = (of: Verdict["subject"], finding: Verdict["findings"][number], fromMs: number): TimelineFinding | undefined => {
    const workload = indexes.workload(of);
    return workload === undefined
      ? undefined
      : {
          ...{ workload, level: finding.level, cause: finding.words.cause, confidence: finding.confidence },
          objects: finding.objects.flatMap((each) => indexes.named(...splitName(each, of.namespace)) ?? []),
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
  return [...current.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level)), ...over];
}

/** `pod/web-7f8fb-x2x4z`, as findings name objects. */
function splitName(text: string, namespace: string): readonly [kind: string, namespace: string, name: string] {
  const [kind = "", name = ""] = text.split("/");
  return [kind, namespace, name];
}

export function objectOf(life: Life, indexes: Indexes): TimelineObject {
  const { kind, namespace, name, owner, from, until, revision, images, node, states, sizes, restarts, changes } = life;
  const ownerIndex = indexes.of(owner);
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

/** Marks where an owner's condition ReplicaFailure shows that the API server rejects its pods. */
export function refusalsIn(changes: readonly ObjectChange[], indexes: Indexes, startMs: number): readonly Mark[] {
  return changes.flatMap(({ uid, atMs, differences }): readonly Mark[] => {
    const failure = differences.find(({ field, to }) => field === "ReplicaFailure" && to?.startsWith("True") === true);
    const object = indexes.of(uid);
    if (failure === undefined || object === undefined) return [];
    const title = `pods refused: ${failure.to?.replace(/^True \((.*)\)$/, "$1")}`;
    return [{ ...{ kind: "refusal", at: atMs - startMs, object, title, isWarning: true }, ...(failure.says && { lines: [failure.says] }) }];
  });
}

/** The mark of a sync that decides or fails. */
export function syncMark(entry: Extract<Entry, { kind: "sync" }>, object: number, { startMs, endMs }: Span): Mark {
  const { controller, error } = entry.sync;
  const lines = decisionsOf(entry, { endMs, all: false, refusals: new Set() }).map((line) => line.replace(/^→ /, ""));
  return {
    ...{
      kind: "sync",
      at: Math.max(0, entry.atMs - startMs),
      object,
      title: lines[0]?.split(";")[0] ?? "",
      by: `${controller} controller`,
      lines,
    },
    reasons: reasonsOf(entry.sync).map(({ words, section }) => ({ text: words, ...(section !== undefined && { rule: section }) })),
    ...(error !== undefined && { isWarning: true }),
  };
}

export function verdictIn(verdict: Verdict, indexes: Indexes): TimelineVerdict | undefined {
  const object = indexes.workload(verdict.subject);
  if (object === undefined) return undefined;
  const clock = clockOf(verdict.atMs);
  return {
    ...{ object, health: verdict.health, effect: effectText(verdict) },
    changed: verdict.changes.map((change) => changeText(change, clock)),
    waits: verdict.waits.map(({ words, untilMs }) => `${words}${untilMs === undefined ? "" : ` by ${clock(untilMs)}`}`),
  };
}
