/** Findings about a workload: a pure function (Rule) computes them as data from the state; a table has their texts. */
import type { EventEvidence } from "../evidence/other-evidence.ts";
import type { ContainerStatus } from "../evidence/pod-evidence.ts";
import { containersOf, eventText, listed } from "../incident/view.ts";
import type { RunContainer, View } from "../incident/view.ts";

export interface Finding {
  readonly kind: string;
  /** `cause`: why pods are missing or unavailable; `wait`: what a controller waits for; `effect`: a consequence or a circumstance. */
  readonly level: "cause" | "wait" | "effect";
  /** Order within a level, lowest first. */
  readonly rank: number;
  readonly confidence: "certain" | "likely";
  /** Begin of the finding, in milliseconds since the epoch. */
  readonly since?: number | undefined;
  /** Object names in kubectl's form: `pod/web-7f8fb-x2x4z`. */
  readonly objects: readonly string[];
  readonly evidence: readonly string[];
  /** Names and numbers for the text. */
  readonly facts: Readonly<Record<string, string>>;
  /** About pods that replace those of an earlier revision: it explains missing pods, not the rollout. */
  readonly isEarlier?: true;
}

export interface Words {
  readonly cause: string;
  /** Commands and advice. */
  readonly help?: readonly string[];
  /** What the kubelet does, where no controller waits. */
  readonly next?: string;
}

/** Longest back-off of container restarts and image pulls. Source: pkg/kubelet/kubelet.go MaxCrashLoopBackOff, MaxImageBackOff. */
const BACK_OFF = "with back-off up to 5m0s";
/** @param backOff the longest current back-off, from `merged` */
export function nextRestart({ backOff }: Readonly<Record<string, string>>): string {
  return `the kubelet restarts the container${backOff === undefined ? `, ${BACK_OFF}` : ` in at most ${backOff}`}`;
}
export const NEXT_PULL = `the kubelet pulls the image again, ${BACK_OFF}`;

export type WordsOf = (facts: Readonly<Record<string, string>>, of: Target) => Words;

/** The object in suggested commands, in kubectl's form. */
export interface Target {
  readonly namespace: string;
  /** The workload: `deployment/web`. */
  readonly object: string;
  /** The finding's first object. */
  readonly first: string;
  /** Number of the finding's objects. */
  readonly count: number;
  /** Whether `kubectl rollout undo` works (the Deployment is not paused) and the earlier revision differs in what fails. */
  readonly canUndo: boolean;
  /** Whether a Deployment's rolling update still has pods of an old revision. */
  readonly hasOldPods: boolean;
}

export interface Rule {
  find(view: View): readonly Finding[];
  /** Kinds that only a capture shows: they need earlier states. */
  readonly needsHistory?: readonly string[];
  /** Texts by kind of finding. */
  readonly words: Readonly<Record<string, WordsOf>>;
}

/** One observation; observations with equal kind and facts are merged into one finding. */
export interface Hit {
  readonly kind: string;
  readonly facts: Readonly<Record<string, string>>;
  readonly object: string;
  readonly since?: number | undefined;
  readonly evidence: readonly string[];
  /** Events of this observation. In a merged finding Events and restarts are summed. */
  readonly events?: readonly EventEvidence[];
  readonly restarts?: number;
  /** The kubelet's current pause before a restart: `1m20s`. In a merged finding, the longest one is a fact. */
  readonly backOff?: string | undefined;
  readonly confidence?: "likely";
}

/** The kind of an object that the kubelet's messages name in lower case. */
export function kindOf(word: string | undefined): string {
  return word === "secret" ? "Secret" : "ConfigMap";
}

const EVIDENCE_MAX = 3;

/** Merges observations; those with the most objects come first. */
export function merged(hits: readonly Hit[], level: Finding["level"], rank: number): readonly Finding[] {
  const groups = Map.groupBy(hits, ({ kind, facts }) => JSON.stringify([kind, facts]));
  const findings = [...groups.values()].flatMap((same): readonly Finding[] => {
    const [first] = same;
    if (first === undefined) return [];
    const times = same.flatMap(({ since }) => since ?? []);
    const [backOff] = same.flatMap((hit) => hit.backOff ?? []).toSorted((a, b) => secondsOf(b) - secondsOf(a));
    return [
      {
        ...{ kind: first.kind, facts: backOff === undefined ? first.facts : { ...first.facts, backOff }, level, rank },
        confidence: same.every(({ confidence }) => confidence === "likely") ? "likely" : "certain",
        since: times.length > 0 ? Math.min(...times) : undefined,
        objects: [...new Set(same.map(({ object }) => object))],
        evidence: evidenceOf(same).slice(0, EVIDENCE_MAX),
      },
    ];
  });
  return findings.toSorted((a, b) => b.objects.length - a.objects.length);
}

/** The search of a rule that observes each container by itself. */
export function ofContainers(rank: number, hit: (view: View, container: RunContainer) => readonly Hit[]): Rule["find"] {
  return (view) =>
    merged(
      containersOf(view.pods).flatMap((each) => hit(view, each)),
      "cause",
      rank,
    );
}

/** The seconds of a duration of whole seconds: `1m20s`. */
function secondsOf(duration: string): number {
  const [, minutes, seconds] = /^(?:(\d+)m)?(\d+)s$/.exec(duration) ?? [];
  return Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
}

/** The back-off of a container that the kubelet does not restart yet. */
export function backOffOf({ state }: ContainerStatus): string | undefined {
  const message = listed(state.waiting?.message);
  return message?.class === "crash loop" ? message.slots["duration"] : undefined;
}

function evidenceOf(hits: readonly Hit[]): readonly string[] {
  const restarts = hits.reduce((sum, hit) => sum + (hit.restarts ?? 0), 0);
  const pods = new Set(hits.flatMap((hit) => ((hit.restarts ?? 0) > 0 ? [hit.object] : []))).size;
  const events = [...new Set(hits.flatMap((hit) => hit.events ?? []))];
  return [
    ...new Set(hits.flatMap(({ evidence }) => evidence)),
    ...(restarts > 0 ? [`${restarts} restart${restarts === 1 ? "" : "s"}${pods > 1 ? ` in ${pods} pods` : ""}`] : []),
    ...[...Map.groupBy(events, ({ reason }) => reason).values()].flatMap(eventText),
  ];
}
