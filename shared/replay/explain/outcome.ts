/** Compares the writes that deltaloop's syncs decide with the recording. */
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Owner, Write } from "@deltaloop/controllers/kit";
import type { ReplayedSync } from "../engine/sync-log.ts";
import type { Difference, ObjectChange } from "./changes.ts";

/** The recorded outcome of one decided write. */
export interface Recorded {
  readonly write: Write;
  /**
   * What the recording shows: the same write; another write instead; according to the owner's status, a rejected write; a newer change of
   * the owner's spec first; or nothing.
   */
  readonly kind: "same" | "other" | "refused" | "overtaken" | "nothing";
  /** Time from deltaloop's sync to the change. */
  readonly afterMs?: number;
  /** The other write, the reason of the (first) rejection, or the newer change of the spec. */
  readonly what?: string;
  /** The number of pods that were created although others were rejected. */
  readonly made?: number;
}

/** A change after this time does not count as the outcome of a write. */
export const LATER_MS = 60_000;
/** A deletion after this time does not count as "instead". */
const INSTEAD_MS = 2_000;

type Answer = Omit<Recorded, "write">;

/** The changes of one object's history, indexed for the lookups of syncs. */
export class Outcomes {
  readonly #byPlace = new Map<string, ObjectChange[]>();
  readonly #podsOf = new Map<string, ObjectChange[]>();
  readonly #ofUid = new Map<string, ObjectChange[]>();

  constructor(changes: readonly ObjectChange[]) {
    for (const change of changes.toSorted((a, b) => a.atMs - b.atMs)) {
      const { resource, namespace, name, uid, owner } = change;
      push(this.#byPlace, `${resource} ${namespace}/${name}`, change);
      push(this.#ofUid, uid, change);
      if (resource === "pods" && owner !== undefined) push(this.#podsOf, owner, change);
    }
  }

  /** Outcomes of distinguishable writes; status writes are omitted, because they follow from the counts. */
  of({ atMs, lines }: Pick<ReplayedSync, "atMs" | "lines">): readonly Recorded[] {
    const deleted = new Set(lines.flatMap((line) => (line.kind === "decided" && line.write.kind === "DeletePod" ? [line.write.name] : [])));
    return lines.flatMap((line) => {
      if (line.kind !== "decided") return [];
      const { write } = line;
      const seen = lines.find((each) => each.kind === "reason" && each.reason.rule === "too few");
      const pods = seen?.kind === "reason" ? seen.reason.facts["pods"] : undefined;
      const answer = this.#answer(write, atMs, { deleted, pods: typeof pods === "number" ? pods : undefined });
      return answer === undefined ? [] : [{ write, ...answer }];
    });
  }

  #answer(
    write: Write,
    atMs: number,
    saw: { readonly deleted: ReadonlySet<string>; readonly pods: number | undefined },
  ): Answer | undefined {
    const { owner } = write;
    const near = (resource: CachedResource, name: string): readonly ObjectChange[] =>
      from(this.#byPlace.get(`${resource} ${owner.namespace}/${name}`) ?? [], atMs).filter(({ kind }) => kind !== "stands");
    switch (write.kind) {
      case "CreateReplicaSet":
        return this.#found(
          near("replicasets", write.name).find(({ kind }) => kind === "appears"),
          owner,
          atMs,
        );
      case "DeleteReplicaSet":
        return this.#found(near("replicasets", write.name).find(isEnding), owner, atMs);
      case "DeletePod": {
        const same = near("pods", write.name).find(isEnding);
        if (same !== undefined) return { kind: "same", afterMs: same.atMs - atMs };
        const another = from(this.#podsOf.get(owner.uid) ?? [], atMs).find(
          (change) => change.atMs > atMs && change.atMs <= atMs + INSTEAD_MS && !saw.deleted.has(change.name) && asksToEnd(change),
        );
        return another === undefined
          ? this.#found(undefined, owner, atMs)
          : { kind: "other", afterMs: another.atMs - atMs, what: `pod ${another.name} was deleted` };
      }
      case "PatchReplicaSet": {
        if (write.replicas === undefined) return undefined;
        const sizes = near("replicasets", write.name).filter(
          (change) => change.kind === "changes" && toOf(change, "replicas") !== undefined,
        );
        const same = sizes.find((change) => toOf(change, "replicas") === String(write.replicas));
        const [first] = sizes;
        if (same !== undefined || first === undefined) return this.#found(same, owner, atMs);
        return { kind: "other", afterMs: first.atMs - atMs, what: `replicas ${toOf(first, "replicas")}` };
      }
      case "CreatePods":
        return this.#created(write, atMs, saw.pods);
      default:
        return undefined;
    }
  }

  #created({ owner, count }: Extract<Write, { kind: "CreatePods" }>, atMs: number, saw: number | undefined): Answer {
    const all = this.#podsOf.get(owner.uid) ?? [];
    const appeared = from(all, atMs).filter(({ kind }) => kind === "appears");
    // Some pods of this millisecond were created before the sync, which would otherwise not have decided this write.
    const now = appeared.filter((change) => change.atMs === atMs);
    const unseen = saw === undefined ? 0 : Math.min(now.length, Math.max(0, activeAt(all, atMs) - saw));
    const pods = [...now.slice(now.length - unseen), ...appeared.filter((change) => change.atMs > atMs)];
    const last = pods[count - 1];
    if (last !== undefined) {
      const refused = this.#refusal(owner, last.atMs);
      return { kind: "same", afterMs: last.atMs - atMs, ...(refused !== undefined && refused.atMs > atMs && { what: refused.what }) };
    }
    const made = pods.length;
    const missing = this.#found(undefined, owner, atMs);
    const latest = pods.at(-1);
    if (latest === undefined) return missing;
    if (missing.kind !== "nothing") return { ...missing, made };
    return { kind: "other", afterMs: latest.atMs - atMs, what: `${made} of ${count}`, made };
  }

  /** @param same the change that equals the write */
  #found(same: ObjectChange | undefined, owner: Owner, atMs: number): Answer {
    if (same !== undefined) return { kind: "same", afterMs: same.atMs - atMs };
    const wish = from(this.#ofUid.get(owner.uid) ?? [], atMs).find(
      (change) => change.atMs > atMs && (wishOf(change) !== undefined || change.kind === "goes"),
    );
    const refused = this.#refusal(owner, Math.min(atMs + LATER_MS + 1, wish?.atMs ?? Infinity));
    if (refused !== undefined) return { kind: "refused", afterMs: Math.max(0, refused.atMs - atMs), what: refused.what };
    if (wish !== undefined) return { kind: "overtaken", afterMs: wish.atMs - atMs, what: wishOf(wish) ?? "it was deleted" };
    return { kind: "nothing" };
  }

  /** The last failure in the owner's status before a time; a failure that was already resolved does not count. */
  #refusal({ uid }: Owner, beforeMs: number): { readonly atMs: number; readonly what: string } | undefined {
    const last = (this.#ofUid.get(uid) ?? []).findLast((change) => change.atMs < beforeMs && failureOf(change) !== undefined);
    const { to, says } = (last && failureOf(last)) ?? {};
    if (last === undefined || to?.startsWith("True") !== true) return undefined;
    return { atMs: last.atMs, what: says ?? to.replace(/^True \((.*)\)$/, "$1") };
  }
}

function push(of: Map<string, ObjectChange[]>, key: string, change: ObjectChange): void {
  const known = of.get(key);
  if (known === undefined) of.set(key, [change]);
  else known.push(change);
}

/** The changes in the minute that starts at `atMs`. */
function from(changes: readonly ObjectChange[], atMs: number): readonly ObjectChange[] {
  const [begin, end] = [firstAt(changes, atMs), firstAt(changes, atMs + LATER_MS + 1)];
  return changes.slice(begin, end);
}

/** Index of the first change at or after the time. */
function firstAt(changes: readonly ObjectChange[], atMs: number): number {
  let [low, high] = [0, changes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((changes[middle]?.atMs ?? Infinity) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Active pods of the owner at the end of that millisecond. */
function activeAt(pods: readonly ObjectChange[], atMs: number): number {
  const active = new Set<string>();
  for (const change of pods.slice(0, firstAt(pods, atMs + 1))) {
    const phase = toOf(change, "phase");
    if (isEnding(change) || phase === "Succeeded" || phase === "Failed") active.delete(change.uid);
    else if (change.kind === "appears" || change.kind === "stands") active.add(change.uid);
  }
  return active.size;
}

function isEnding(change: ObjectChange): boolean {
  return change.kind === "goes" || asksToEnd(change);
}

function asksToEnd({ differences }: ObjectChange): boolean {
  return differences.some(({ field, from: before, to: now }) => field === "asked to end" && before === undefined && now !== undefined);
}

/** Describes a user's change of the owner: its size, template, or deletion. */
function wishOf({ kind, differences }: ObjectChange): string | undefined {
  if (kind !== "changes") return undefined;
  const wish = differences.find(({ field }) => ["replicas", "template", "paused", "asked to end"].includes(field));
  if (wish === undefined) return undefined;
  if (wish.field === "asked to end") return "its deletion was requested";
  return wish.field === "template" ? "its template changed" : `${wish.field} became ${wish.to ?? "unset"}`;
}

function failureOf({ differences }: ObjectChange): Difference | undefined {
  return differences.find(({ field }) => field === "ReplicaFailure");
}

function toOf({ differences }: ObjectChange, field: string): string | undefined {
  return differences.find((difference) => difference.field === field)?.to;
}
