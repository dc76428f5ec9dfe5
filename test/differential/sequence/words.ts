/** Describes objects as text that is equal on both sides: without pod names, uids, versions and times, which are random. */
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import type { Fields, Json } from "../shared-api-server.ts";

export type PodNow = KubeObject & { readonly spec: Fields; readonly status: Fields };

export const NODES = ["n1", "n2", "n3"] as const;

export function createdAt({ metadata }: PodNow): string {
  return metadata.creationTimestamp ?? "";
}

export function phaseOf({ status }: PodNow): string {
  return String(status["phase"]);
}

export function readySince({ status }: { readonly status: Fields }): string {
  const ready = ((status["conditions"] ?? []) as readonly Fields[]).find(({ type }) => type === "Ready"); // the type of a pod's field
  return ready?.["status"] === "True" ? String(ready["lastTransitionTime"]) : "not";
}

export function isReady(pod: PodNow): boolean {
  return readySince(pod) !== "not" && phaseOf(pod) === "Running";
}

/** Describes nodes by their pods, because which of two equal nodes keeps its pods is random. */
export function nodesOf(pods: readonly PodNow[]): ReadonlyMap<string, string> {
  const active = pods.filter(({ metadata, status }) => metadata.deletionTimestamp === undefined && status["phase"] !== "Failed");
  return new Map(
    NODES.map((node) => {
      const here = active.filter(({ spec }) => spec["nodeName"] === node).map(readySince);
      return [node, [here.length, ...here.toSorted()].join(" ")];
    }),
  );
}

/**
 * Returns the ranking criteria of a pod, without times: among pods of similar age (logarithmic buckets), the uid decides.
 * Source: controller_utils.go logarithmicRankDiff.
 */
export function rankOf(pod: Fields): string {
  const { spec, status, metadata } = pod as { readonly spec: Fields; readonly status: Fields; readonly metadata: Fields }; // the type of a pod's field
  const node = spec["nodeName"] === undefined ? "no node" : "node";
  const ready = readySince({ status }) === "not" ? "not ready" : "ready";
  const isGoing = metadata["deletionTimestamp"] === undefined ? "" : " terminating";
  return `<${String(status["phase"])}, ${node}, ${ready}${isGoing}> ${labelsOf(pod)}`;
}

export function ownerOf({ metadata }: { readonly metadata: { readonly ownerReferences?: readonly { readonly name: string }[] } }): string {
  return metadata.ownerReferences?.map(({ name }) => name).join() ?? "nobody's";
}

export function nameOf({ metadata }: Fields): string {
  return String((metadata as Fields | undefined)?.["name"] ?? ""); // the metadata of an object or a Status
}

export function labelsOf({ metadata }: Fields): string {
  return JSON.stringify((metadata as Fields)["labels"] ?? {}); // the type of an object's metadata
}

export function annotationsOf({ metadata }: Fields): string {
  return sorted((metadata as Fields)["annotations"] ?? {}); // the type of an object's metadata
}

/** Returns the changed fields outside of status, limited to those that controllers change. */
export function changesOf(before: Fields, after: Fields): string {
  const parts = (object: Fields): Readonly<Record<string, string>> => {
    const { ownerReferences, labels, annotations } = object["metadata"] as Fields; // the type of an object's metadata
    const owners = ((ownerReferences ?? []) as readonly Fields[]).map(({ kind, name, controller }) => [kind, name, controller] as Json[]); // the type of an object's metadata
    return {
      owners: JSON.stringify(owners),
      labels: sorted(labels ?? {}),
      annotations: sorted(annotations ?? {}),
      spec: object["spec"] === undefined ? "" : specOf(object["spec"]),
    };
  };
  const [was, is] = [parts(before), parts(after)];
  return Object.keys(was)
    .filter((part) => was[part] !== is[part])
    .map((part) => `${part} ${was[part] ?? ""} -> ${is[part] ?? ""}`)
    .join(", ");
}

/** Returns the part of a spec that controllers write. */
export function specOf(spec: Json): string {
  const { replicas, minReadySeconds, template } = spec as Fields; // the spec of a workload or a pod
  const image = ((template as Fields | undefined)?.["spec"] as Fields | undefined)?.["containers"] as readonly Fields[] | undefined; // the template of a workload
  return `replicas ${JSON.stringify(replicas)}, min ready ${JSON.stringify(minReadySeconds ?? 0)}, ${String(image?.[0]?.["image"])}`;
}

/** Returns a status without the times of its conditions; for a Deployment also its revision. */
export function statusOf(object: Fields): string {
  const { annotations } = object["metadata"] as Fields; // the type of an object's metadata
  const revision = (annotations as Fields | undefined)?.["deployment.kubernetes.io/revision"];
  const status = sorted(object["status"] ?? {});
  return object["kind"] === "Deployment" && revision !== undefined ? `${status} revision ${JSON.stringify(revision)}` : status;
}

function sorted(value: Json): string {
  return JSON.stringify(value, (field, part: unknown) =>
    field === "lastTransitionTime" || field === "lastUpdateTime"
      ? undefined
      : isObject(part)
        ? Object.fromEntries(Object.entries(part).toSorted())
        : part,
  );
}

/** Returns object, type, reason and message without the random names of pods. */
export function eventTextOf({ type, reason, message, involvedObject }: Fields): string {
  const { kind, name } = involvedObject as Fields; // every Event has an involvedObject
  return [`${String(kind)} ${String(name)}`, type, reason, String(message).replace(/(ed pods?: )\S+/g, "$1*")].join(" ");
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function secondsOf(times: readonly number[]): string {
  return times.length === 0 ? "no time" : times.map((atMs) => (atMs / 1000).toFixed(3)).join(" ");
}
