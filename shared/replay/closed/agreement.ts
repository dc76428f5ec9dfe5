/** Compares the final states of two clusters, ignoring random names and times. */
import { controllerRef } from "@deltaloop/kube/objects";
import type { Condition } from "@deltaloop/kube/objects";
import { canonical, differencesOf } from "../shadow/canonical-write.ts";
import type { Json, LiveObject } from "../shadow/states.ts";

/**
 * Returns one line per difference, such as `Deployment shop/web: status.readyReplicas: recorded 3, replayed 2`; empty if the clusters agree.
 */
export function disagreements(recorded: readonly LiveObject[], ours: readonly LiveObject[]): readonly string[] {
  const [a, b] = [endsOf(recorded), endsOf(ours)];
  return [...new Set([...a.keys(), ...b.keys()])].toSorted().flatMap((place) => {
    const [left, right] = [a.get(place), b.get(place)];
    if (left === undefined) return [`${place} exists only in the replay`];
    if (right === undefined) return [`${place} exists only in the recording`];
    if (canonical(left) === canonical(right)) return [];
    return differencesOf(left, right, "replayed").map((difference) => `${place}: ${difference.replace("upstream", "recorded")}`);
  });
}

/**
 * The final state: each owner by name with its number of pods; pods without owner by name, or their number if their names have random
 * suffixes.
 */
function endsOf(objects: readonly LiveObject[]): ReadonlyMap<string, unknown> {
  const nobodys = new Map<string, number>();
  const alive = objects.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const podsOf = (uid: string): number =>
    alive.filter(({ kind, metadata }) => kind === "Pod" && controllerRef(metadata)?.uid === uid).length;
  return new Map(
    alive.flatMap((object): readonly (readonly [string, unknown])[] => {
      const { kind, metadata, spec, status } = object;
      const owner = controllerRef(metadata);
      if (kind === "Pod") {
        if (owner !== undefined) return [];
        const { generateName } = metadata as { readonly generateName?: string };
        const place = `Pod ${metadata.namespace}/${generateName === undefined ? metadata.name : `${generateName}*****`}`;
        const count = (nobodys.get(place) ?? 0) + 1;
        nobodys.set(place, count);
        return [[place, { labels: metadata.labels, count }]];
      }
      const end = {
        revision: metadata.annotations?.["deployment.kubernetes.io/revision"],
        owner: owner?.name,
        replicas: spec?.["replicas"],
        pods: podsOf(metadata.uid),
        status: statusOf(status),
      };
      return [[`${kind} ${metadata.namespace}/${metadata.name}`, end]];
    }),
  );
}

/** Non-zero counters, and conditions without times and messages. */
function statusOf(status: Json | undefined): Json {
  const { conditions = [], observedGeneration: _, ...counters } = (status ?? {}) as Json & { readonly conditions?: readonly Condition[] }; // the status of every owner kind has these fields
  return {
    ...Object.fromEntries(Object.entries(counters).filter(([, value]) => value !== 0)),
    ...Object.fromEntries(conditions.map(({ type, status: is, reason = "" }) => [type, `${is} ${reason}`])),
  };
}
