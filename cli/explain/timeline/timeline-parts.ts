/** The parts of a timeline's input, for a capture or a running cluster. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Entry, Explained, ObjectChange, Verdict } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import type { Begin, Mark, TimelineFinding, TimelineObject, TimelineVerdict } from "@deltaloop/timeline/input";
import { decisionsOf, reasonsOf } from "../explain-text.ts";
import type { Span } from "../explain-text.ts";
import { changeText, clockOf, effectText } from "../verdict-text.ts";
import { concernedBy } from "./concerned.ts";
import type { FindingTimes } from "./finding-times.ts";
import type { Life } from "./life.ts";

/** Indexes of the objects by uid and by name; of several objects with the same name, the latest one counts. */
export class Indexes {
  readonly #uids = new Map<string, number>();
  readonly #names = new Map<string, number>();
  readonly lives: Life[] = [];

  /** Adds an object. Returns its index. */
  add(life: Life): number {
    const { uid, kind, namespace, name } = life;
    const index = this.lives.push(life) - 1;
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

export interface Drawn {
  readonly indexes: Indexes;
  readonly marks: readonly Mark[];
  readonly span: Span;
}

/** Returns the findings: causes first, and findings that the verdicts no longer show last. */
export function findingsIn(verdicts: readonly Verdict[], times: FindingTimes, drawn: Drawn): readonly TimelineFinding[] {
  const { indexes, span } = drawn;
  const { startMs, endMs } = span;
  const findingOf = (of: Verdict["subject"], finding: Explained, fromMs: number): TimelineFinding | undefined => {
    const workload = indexes.workload(of);
    if (workload === undefined) return undefined;
    const own = finding.objects.flatMap((each) => indexes.named(...splitName(each, of.namespace)) ?? []);
    const beside = concernedBy(finding, of).flatMap(({ kind, namespace, name }) => indexes.named(kind, namespace, name) ?? []);
    return {
      ...{ workload, level: finding.level, cause: finding.words.cause, confidence: finding.confidence },
      ...{ objects: [...own, ...beside], evidence: finding.evidence, help: finding.words.help ?? [] },
      ...beginOf(finding, fromMs, { drawn, objects: [...own, ...beside.filter((each) => indexes.lives[each]?.kind === "Node")] }),
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

const SECOND_MS = 1_000;
/** A change is recorded at most this long after the second that its object states. */
const RECORDED_MS_MAX = 2_000;

/**
 * Objects state times in whole seconds, so a finding would begin before its cause. It begins when its first sign was recorded, if that is
 * soon after the stated second.
 */
function beginOf(
  { since }: Explained,
  fromMs: number,
  { drawn: { indexes, marks, span }, objects }: { readonly drawn: Drawn; readonly objects: readonly number[] },
): { readonly from: number; readonly begin: Begin } {
  const from = fromMs - span.startMs;
  if (since === undefined) return { from: Math.max(0, from), begin: { clock: "checked" } };
  if (from < -SECOND_MS)
    return { from: 0, begin: { clock: "earlier", what: new Date(fromMs).toISOString().replace("T", " ").slice(0, 19) } };
  if (fromMs % SECOND_MS !== 0) return { from: Math.max(0, from), begin: { clock: "recorded" } };
  const isSoon = ({ at }: { readonly at: number }): boolean => at >= from && at < from + RECORDED_MS_MAX;
  const signs = objects
    .flatMap((index) => signsOf(indexes.lives[index]))
    .concat(
      marks.flatMap(({ at, kind, object, title, isWarning }) =>
        objects.includes(object) && (kind === "refusal" || (kind === "event" && isWarning === true))
          ? [{ at, what: `Event ${title} was recorded` }]
          : [],
      ),
    );
  const [first] = signs.filter(isSoon).toSorted((a, b) => a.at - b.at);
  return first === undefined
    ? { from: Math.max(0, from), begin: { clock: "stated" } }
    : { from: first.at, begin: { clock: "recorded", what: first.what } };
}

/** Recorded moments of an object at which a finding may begin. */
function signsOf(life: Life | undefined): readonly { readonly at: number; readonly what: string }[] {
  if (life === undefined) return [];
  const name = `${life.kind.toLowerCase()}/${life.name}`;
  return [
    ...life.changes.flatMap(({ at, what, isRequest }) =>
      what === "created" || what === "deleted"
        ? [{ at, what: `${name} was ${what}` }]
        : isRequest
          ? [{ at, what: `${name} was changed` }]
          : [],
    ),
    ...life.states.flatMap(([at, state, reason], index) =>
      index > 0 && (BAD.has(state) || life.states[index - 1]?.[1] === "ready")
        ? [{ at, what: `${name} became ${reason ?? (state === "running" ? "not ready" : state)}` }]
        : [],
    ),
  ];
}

const BAD: ReadonlySet<string> = new Set(["waiting", "failed", "terminating"]);

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
    ...(kind === "Pod" ? { states, restarts } : kind === "Node" || kind === "ResourceQuota" ? { states } : { sizes }),
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
  const textOf = clockOf(verdict.atMs);
  // Recorded times have milliseconds, but times that objects state do not.
  const clock = (ms: number): string =>
    ms % SECOND_MS === 0 ? textOf(ms) : textOf(ms).replace("Z", `.${Math.floor((ms % SECOND_MS) / 100)}Z`);
  return {
    ...{ object, health: verdict.health, effect: effectText(verdict) },
    changed: verdict.changes.map((change) => changeText(change, clock)),
    waits: verdict.waits.map(({ words, untilMs }) => `${words}${untilMs === undefined ? "" : ` by ${clock(untilMs)}`}`),
  };
}
