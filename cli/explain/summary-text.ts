/** The summary above the history of an object. */
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Write } from "@deltaloop/controllers/kit";
import type { End, Refusal, Summary, Subject } from "@deltaloop/replay/explain";
import { counted } from "../output/counted.ts";
import { predicateOf } from "./change-text.ts";
import { objectName } from "./subject.ts";
import { since } from "../command/moment.ts";
import { printable } from "@deltaloop/base/output";

/** Items beyond these limits are only counted. */
const [WISHES_MAX, REFUSALS_MAX, NAMES_MAX, ASKED_MAX] = [5, 2, 3, 4];

export function summaryText(subject: Subject, summary: Summary, startMs: number): string {
  const lines = [
    ...wishesText(summary, startMs),
    recordedText(summary),
    oursText(summary),
    ...refusalsText(summary, startMs),
    endText(subject, summary, startMs),
  ];
  return `Summary\n${lines.flatMap((line) => (line === "" ? [] : [`  ${printable(line)}\n`])).join("")}\n`;
}

/** Returns the summary as JSON, with times relative to the start, as in the history. */
export function summaryJson(summary: Summary, startMs: number): object {
  const when = (atMs: number): object => ({ at: new Date(atMs).toISOString(), sinceMs: atMs - startMs });
  const { wishes, refusals, end, ...counts } = summary;
  return {
    kind: "summary",
    wishes: wishes.map(({ atMs, change: { kind, differences, by } }) => ({ ...when(atMs), change: kind, differences, by })),
    ...counts,
    refusals: refusals.map(({ fromMs, untilMs, ...refusal }) => ({
      ...refusal,
      from: when(fromMs),
      ...(untilMs !== undefined && { until: when(untilMs) }),
    })),
    end: { since: when(end.sinceMs), busy: end.busy, fields: end.fields && Object.fromEntries(end.fields) },
  };
}

function wishesText({ wishes }: Summary, startMs: number): readonly string[] {
  const lines = wishes.map(({ atMs, change }) => `${since(atMs, startMs)} ${predicateOf(change)}`);
  return most(lines, WISHES_MAX);
}

/** Shortens a list but keeps its last line, the final state. */
function most(lines: readonly string[], max: number): readonly string[] {
  if (lines.length <= max) return lines;
  return [...lines.slice(0, max - 2), `then ${lines.length - max + 1} more, and finally`, ...lines.slice(-1)];
}

function recordedText({ recorded: { replicaSetsCreated, sizesChanged, podsCreated, podsDeleted } }: Summary): string {
  const parts = [
    replicaSetsCreated > 0 ? `${counted(replicaSetsCreated, "ReplicaSet")} created` : "",
    sizesChanged > 0 ? `ReplicaSets scaled ${times(sizesChanged)}` : "",
    podsCreated > 0 ? `${counted(podsCreated, "pod")} created` : "",
    podsDeleted > 0 ? `${counted(podsDeleted, "pod")} deleted` : "",
  ].filter((part) => part !== "");
  return parts.length === 0 ? "" : `recorded: ${parts.join(", ")}`;
}

const DECISIONS: { readonly [K in Write["kind"]]: string } = {
  CreateReplicaSet: "create a ReplicaSet",
  PatchReplicaSet: "patch a ReplicaSet",
  DeleteReplicaSet: "delete a ReplicaSet",
  CreatePods: "create pods",
  DeletePod: "delete a pod",
  Adopt: "adopt",
  Release: "release",
  RollBack: "roll back",
  UpdateStatus: "write a status",
};

function oursText({ syncs, idle, decided, podsAsked, outcomes, refusedInPart }: Summary): string {
  if (syncs === 0) return "";
  const kinds = (Object.keys(DECISIONS) as readonly Write["kind"][]).filter((kind) => decided[kind] !== undefined); // an object literal has exactly these keys
  const said = kinds.map((kind) => `${DECISIONS[kind]} ${times(decided[kind] ?? 0)}${kind === "CreatePods" ? missingText(podsAsked) : ""}`);
  const { same, other, refused, overtaken, nothing } = outcomes;
  const all = same + other + refused + overtaken + nothing;
  const done = [
    [same, "same write recorded"],
    [other, "different write recorded"],
    [refused - refusedInPart, "refused"],
    [refusedInPart, "refused in part"],
    [overtaken, "superseded by another change"],
    [nothing, "not done"],
  ] as const;
  const outcome = done.flatMap(([n, what]) => (n > 0 ? [`${n} ${what}`] : [])).join(", ");
  return `deltaloop: ${counted(syncs, "sync")}, ${idle} with nothing to do; decisions without repeats: ${said.join(", ") || "do nothing"}${all > 0 ? `; in the recording: ${outcome}` : ""}`;
}

/** Lists how many pods were missing at each create: a sync that does not see all created pods yet creates only the missing ones. */
function missingText(asked: readonly number[]): string {
  return asked.length > 1 && asked.length <= ASKED_MAX ? ` (${asked.join(", then ")} missing)` : "";
}

function refusalsText({ refusals }: Summary, startMs: number): readonly string[] {
  const lines = refusals.map(({ fromMs, untilMs, resource, name, reason, says }: Refusal) => {
    const end = untilMs === undefined ? "the end" : since(untilMs, startMs);
    const why = says ?? "the message may quote a secret, read it in the object";
    return `from ${since(fromMs, startMs)} to ${end} ${objectName(resource, name)} was refused (${reason}): ${why}`;
  });
  return most(lines, REFUSALS_MAX);
}

function endText({ resource }: Subject, { end, syncs, refusals }: Summary, startMs: number): string {
  const { sinceMs, busy, fields } = end;
  if (fields === undefined) return "at the end: deleted";
  if (resource === "pods")
    return `at the end: phase ${fields.get("phase") ?? "unknown"}, ${fields.get("ready") === "yes" ? "ready" : "not ready"}`;
  const state = stateText(end);
  if (busy.length > 0) {
    const names = busy
      .slice(0, NAMES_MAX)
      .map((key) => key.replace(/^(\S+) [^/]+\/(.+)$/, (_, each: CachedResource, name: string) => objectName(each, name))); // keys as formed by summary.ts
    return `at the end: not settled, deltaloop's controllers continue with ${names.join(", ")}; ${state}`;
  }
  const isRefused = refusals.some(({ untilMs }) => untilMs === undefined);
  if (syncs === 0) return `at the end: ${state}`;
  return `${isRefused ? "still refused at the end" : `settled since ${since(sinceMs, startMs)}`}: ${state}`;
}

function stateText({ fields }: End): string {
  const wanted = fields?.get("replicas") ?? "1";
  const counters = [`${fields?.get("status.availableReplicas") ?? "0"} of ${counted(Number(wanted), "pod")} available`];
  const ready = fields?.get("status.readyReplicas") ?? "0";
  if (ready !== (fields?.get("status.availableReplicas") ?? "0")) counters.push(`${ready} ready`);
  const conditions = ["Progressing", "Available", "ReplicaFailure"].flatMap((type) => {
    const condition = fields?.get(type);
    return condition === undefined ? [] : [`${type} ${condition}`];
  });
  const paused = fields?.get("paused") === "true" ? ["paused"] : [];
  return [...counters, ...paused, ...conditions].join(", ");
}

function times(n: number): string {
  return n === 1 ? "once" : `${n} times`;
}
