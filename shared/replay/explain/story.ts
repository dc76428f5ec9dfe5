/**
 * What a capture tells of one object, in the order in which it happened: the changes that could wake its controllers, the syncs with
 * their reasons and decisions, and what the recording did where we decided.
 */
import { CONTROLLER_INFO } from "../../api/resources.ts";
import type { CachedResource } from "../../api/resources.ts";
import type { Write } from "../../controller/writes.ts";
import type { ReplayedSync } from "../replay.ts";
import type { ObjectChange } from "./changes.ts";

export interface Subject {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
}

export type Entry =
  | { readonly kind: "change"; readonly atMs: number; readonly change: ObjectChange }
  | { readonly kind: "sync"; readonly atMs: number; readonly sync: ReplayedSync; readonly recorded: readonly Recorded[] };

/** What the recording shows of one decided write. */
export interface Recorded {
  readonly write: Write;
  /** Like ours, something else of the same field, or nothing at all. */
  readonly kind: "same" | "other" | "nothing";
  /** Between our sync and the change. */
  readonly afterMs?: number;
  /** `other`: what it was. */
  readonly what?: string;
}

/** What comes later is the answer to something else. */
const LATER_MS = 60_000;

/**
 * The family of a Deployment are its ReplicaSets and their pods, of a ReplicaSet or ReplicationController its pods; of a pod
 * its owner's syncs count where they speak of it.
 */
export function storyOf(subject: Subject, changes: readonly ObjectChange[], syncs: readonly ReplayedSync[]): readonly Entry[] {
  const family = familyOf(subject, changes);
  const related = changes.filter(({ uid }) => family.has(uid));
  const keys = new Set(related.map(({ resource, namespace, name }) => `${resource} ${namespace}/${name}`));
  const own = syncs.filter((sync) =>
    subject.resource === "pods" ? speaksOf(sync, subject) : keys.has(`${CONTROLLER_INFO[sync.controller].primary} ${sync.key}`),
  );
  const entries: Entry[] = [
    ...related.map((change): Entry => ({ kind: "change", atMs: change.atMs, change })),
    ...own.map((sync): Entry => ({ kind: "sync", atMs: sync.atMs, sync, recorded: recordedOf(sync, related) })),
  ];
  return entries.toSorted((a, b) => a.atMs - b.atMs);
}

function familyOf({ resource, namespace, name }: Subject, changes: readonly ObjectChange[]): ReadonlySet<string> {
  const family = new Set(
    changes
      .filter((change) => change.resource === resource && change.namespace === namespace && change.name === name)
      .map(({ uid }) => uid),
  );
  // Owners before what they own: two rounds reach from a Deployment to its pods.
  for (let round = 0; round < 2; round++)
    for (const { uid, owner } of changes) if (owner !== undefined && family.has(owner)) family.add(uid);
  return family;
}

/** Whether a sync decided something about that pod, or says why not. */
export function speaksOf({ key, lines }: ReplayedSync, { namespace, name }: Subject): boolean {
  return (
    key.startsWith(`${namespace}/`) &&
    lines.some(
      (line) =>
        (line.kind === "reason" && line.reason.about === name) ||
        (line.kind === "decided" && "name" in line.write && line.write.name === name),
    )
  );
}

function recordedOf({ atMs, key, lines }: ReplayedSync, changes: readonly ObjectChange[]): readonly Recorded[] {
  const near = changes.filter((change) => change.atMs >= atMs && change.atMs <= atMs + LATER_MS && change.kind !== "stands");
  const namespace = key.split("/", 1)[0] ?? "";
  return lines.flatMap((line) => {
    if (line.kind !== "decided") return [];
    const { write } = line;
    const of = (resource: CachedResource, name: string): readonly ObjectChange[] =>
      near.filter((change) => change.resource === resource && change.namespace === namespace && change.name === name);
    const answer = (same: ObjectChange | undefined, other?: ObjectChange, what?: string): readonly Recorded[] => {
      if (same !== undefined) return [{ write, kind: "same", afterMs: same.atMs - atMs }];
      if (other !== undefined && what !== undefined) return [{ write, kind: "other", afterMs: other.atMs - atMs, what }];
      return [{ write, kind: "nothing" }];
    };
    switch (write.kind) {
      case "CreateReplicaSet":
        return answer(of("replicasets", write.name).find(({ kind }) => kind === "appears"));
      case "DeleteReplicaSet":
        return answer(
          of("replicasets", write.name).find((change) => change.kind === "goes" || sizeOf(change, "asked to end") !== undefined),
        );
      case "DeletePod":
        return answer(of("pods", write.name).find((change) => change.kind === "goes" || sizeOf(change, "asked to end") !== undefined));
      case "PatchReplicaSet": {
        if (write.replicas === undefined) return [];
        const sizes = of("replicasets", write.name).filter(
          (change) => change.kind === "changes" && sizeOf(change, "replicas") !== undefined,
        );
        const [first] = sizes;
        const same = sizes.find((change) => sizeOf(change, "replicas") === String(write.replicas));
        return answer(same, first, `replicas ${first && sizeOf(first, "replicas")}`);
      }
      case "CreatePods": {
        // What appeared in that very millisecond was told already, or this would not have been decided.
        const pods = near.filter(
          (change) => change.resource === "pods" && change.kind === "appears" && change.owner === write.owner.uid && change.atMs > atMs,
        );
        const last = pods[write.count - 1];
        return answer(last, pods[0], `${pods.length} of ${write.count}`);
      }
      default:
        return [];
    }
  });
}

function sizeOf({ differences }: ObjectChange, field: string): string | undefined {
  return differences.find((difference) => difference.field === field)?.to;
}
