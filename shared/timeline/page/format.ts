/** Times and names as text. */
import type { PodState, TimelineObject } from "../input.ts";
import type { Model } from "./model.ts";

/** `10:02:11.5` for a time relative to the start. */
export function clockText({ input: { startMs } }: Model, at: number, digits = 1): string {
  return new Date(startMs + at).toISOString().slice(11, digits === 0 ? 19 : 20 + digits);
}

/** `+12.3s` */
export function sinceText(at: number): string {
  return `+${(at / 1_000).toFixed(1)}s`;
}

export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

const SHORT = {
  Deployment: "deploy",
  ReplicaSet: "rs",
  ReplicationController: "rc",
  Pod: "pod",
  Node: "node",
  ResourceQuota: "quota",
} as const;

export function shortName({ kind, name }: TimelineObject): string {
  return `${SHORT[kind]}/${name}`;
}

/** Describes a state as `kubectl` does: a running pod that is not yet, or no longer, ready is "not ready". */
export function stateWords(state: PodState): string {
  return state === "running" ? "not ready" : state;
}

/**
 * The command that prints the same information in a terminal; for a running cluster the current information. Returns undefined if there is
 * no such command.
 */
export function commandOf({ input: { source, cluster } }: Model, object: TimelineObject, at: number): string | undefined {
  if (object.kind === "Node" || object.kind === "ResourceQuota") return undefined;
  if (cluster !== undefined)
    return cluster.options === undefined
      ? undefined
      : `deltaloop explain ${shortName(object)} -n ${object.namespace} ${cluster.options}`.trim();
  const file = /^[\w./-]+$/.test(source) ? source : `'${source.replaceAll("'", String.raw`'\''`)}'`;
  return `deltaloop explain ${file} ${shortName(object)} -n ${object.namespace} --at ${sinceText(at)}`;
}

/** Round steps of an axis of `width` pixels, at least 90 pixels apart. */
export function ticksOf(from: number, to: number, width: number): { readonly step: number; readonly ticks: readonly number[] } {
  const least = ((to - from) * 90) / Math.max(1, width);
  const step = STEPS.find((each) => each >= least) ?? 86_400_000;
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return { step, ticks };
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5];
