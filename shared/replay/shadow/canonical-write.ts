/** The canonical form of a write, for comparison: without current times and without fields that the API server adds. */
import { exactNumber, exactText } from "@deltaloop/base";
import type { Condition } from "@deltaloop/kube/objects";
import type { OwnWrite } from "./one-sync.ts";
import type { Json, LiveObject } from "./states.ts";

/** Difference below which two times count as equal. */
const MOMENT_MS = 2000;

/** Returns undefined for a write that stored nothing. */
export function canonicalOwnWrite({ verb, resource, subresource, name, stored }: OwnWrite, nowMs: number): unknown {
  if (verb === "delete") return { delete: `${resource} ${name}` };
  return stored === undefined ? undefined : canonicalWrite(stored, nowMs, subresource);
}

/**
 * Times within two seconds of `nowMs` become `<now>`. For a status write omits all other fields: another client may have changed them just
 * before.
 */
export function canonicalWrite({ kind, metadata, spec, status }: LiveObject, nowMs: number, subresource: string): unknown {
  const time = (text: string | undefined): string | undefined =>
    text !== undefined && Math.abs(Date.parse(text) - nowMs) < MOMENT_MS ? "<now>" : text;
  const { labels, annotations, ownerReferences, generateName } = metadata as LiveObject["metadata"] & { readonly generateName?: string };
  if (kind === "Pod") return { pod: generateName, labels, annotations, ownerReferences, containers: containersOf(spec) };
  const { conditions = [], ...counters } = (status ?? {}) as Json & { readonly conditions?: readonly Condition[] }; // every owner has a status
  const fields = {
    counters,
    conditions: conditions.map((each) => ({
      ...each,
      lastUpdateTime: time(each.lastUpdateTime),
      lastTransitionTime: time(each.lastTransitionTime),
    })),
  };
  if (kind === "Deployment") return { revision: annotations?.["deployment.kubernetes.io/revision"], ...fields };
  if (subresource === "status") return { name: metadata.name, ...fields };
  return { name: metadata.name, labels, annotations, ownerReferences, spec: withoutUnsetTime(spec), ...fields };
}

/** Before Kubernetes 1.34, Go wrote a template's unset creationTimestamp as null. */
function withoutUnsetTime(spec: Json | undefined): Json | undefined {
  const template = spec?.["template"] as Json | undefined; // an owner's spec has a pod template
  const { creationTimestamp = null, ...metadata } = (template?.["metadata"] ?? {}) as Json;
  return template === undefined || creationTimestamp !== null ? spec : { ...spec, template: { ...template, metadata } };
}

interface Container {
  readonly name: string;
  readonly image: string;
}

/** Returns names and images only, because the API server may default the other fields. */
function containersOf(spec: Json | undefined): readonly Container[] {
  const containers = (spec?.["containers"] ?? []) as readonly Container[]; // the value is a pod's spec
  return containers.map(({ name, image }) => ({ name, image }));
}

export function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : exactNumber(part),
  );
}

/** Lists the differences: `counters.replicas: upstream 3, deltaloop 2`. Values that may be secret are not printed. */
export function differencesOf(upstream: unknown, other: unknown, name: "deltaloop" | "replayed" | "before"): readonly string[] {
  const [a, b] = [leavesOf(upstream), leavesOf(other)];
  return [...new Set([...a.keys(), ...b.keys()])].flatMap((path) => {
    if (a.get(path) === b.get(path)) return [];
    if (SECRET.test(path)) return [`${path}: not alike`];
    return [`${path}: upstream ${a.get(path) ?? "nothing"}, ${name} ${b.get(path) ?? "nothing"}`];
  });
}

/** Fields whose values may be secret: templates except images, and annotations of other components. */
const SECRET = /^spec\.template\.(?!.*\.image$)|^annotations\.(?!deployment\.kubernetes\.io\/)/;

function leavesOf(value: unknown, path = "", leaves = new Map<string, string>()): ReadonlyMap<string, string> {
  if (typeof value === "object" && value !== null)
    for (const [name, inner] of Object.entries(value)) leavesOf(inner, path === "" ? name : `${path}.${name}`, leaves);
  else if (value !== undefined) leaves.set(path, exactText(value));
  return leaves;
}
