/** Nodes and ResourceQuotas as rows of a timeline, if a finding concerns them. */
import type { Digester } from "@deltaloop/kube/pod-template";
import type { EvidenceRecord } from "@deltaloop/replay/capture";
import { otherEvidence } from "@deltaloop/replay/explain";
import type { EvidenceObjects, Explained, Verdict } from "@deltaloop/replay/explain";
import type { PodState } from "@deltaloop/timeline/input";
import type { Life } from "./life.ts";

/** Kinds whose findings name such an object in a fact. */
const KINDS = { node: "Node", quota: "ResourceQuota" } as const;
/** Amounts of a quota that fit into a label. */
const AMOUNTS_MAX = 3;

interface Named {
  readonly kind: (typeof KINDS)[keyof typeof KINDS];
  readonly namespace: string;
  readonly name: string;
}

export function concernedBy({ facts }: Explained, { namespace }: Verdict["subject"]): readonly Named[] {
  return Object.entries(KINDS).flatMap(([fact, kind]) => {
    const name = facts[fact];
    return name === undefined ? [] : [{ kind, namespace: kind === "Node" ? "" : namespace, name }];
  });
}

interface Seen {
  readonly named: Named;
  readonly uid: string;
  readonly isListed: boolean;
  /** Evidence is read ahead of the records, so times are absolute. */
  readonly steps: { readonly atMs: number; readonly state: PodState; readonly reason: string }[];
  goneMs?: number;
  life?: Life;
}

/** Follows all Nodes and ResourceQuotas, of which the timeline shows only those that a finding names. */
export class Concerned {
  readonly #digester: Digester;
  readonly #seen = new Map<string, Seen>();

  constructor(digester: Digester) {
    this.#digester = digester;
  }

  /** Returns the row that changes, if it was requested before. */
  see({ atMs, resource, kind, type, object }: EvidenceRecord, startMs: number): Life | undefined {
    if ((resource !== "nodes" && resource !== "resourcequotas") || object === undefined || type === "BOOKMARK") return undefined;
    const found =
      resource === "nodes"
        ? named(otherEvidence("nodes", object, this.#digester), nodeState)
        : named(otherEvidence("resourcequotas", object, this.#digester), quotaState);
    if (found === undefined) return undefined;
    const {
      uid,
      state: [state, reason],
      ...of
    } = found;
    const seen = this.#seen.get(uid) ?? {
      named: { kind: resource === "nodes" ? "Node" : "ResourceQuota", ...of },
      uid,
      isListed: kind === "item",
      steps: [],
    };
    this.#seen.set(uid, seen);
    const last = seen.steps.at(-1);
    if (type === "DELETED") seen.goneMs = atMs;
    else if (last?.state !== state || last.reason !== reason) seen.steps.push({ atMs, state, reason });
    return seen.life && this.#advanced(seen, startMs);
  }

  /** Returns the latest of several objects with the same name. */
  row({ kind, namespace, name }: Named, startMs: number): Life | undefined {
    const seen = [...this.#seen.values()].findLast(
      ({ named: each }) => each.kind === kind && each.namespace === namespace && each.name === name,
    );
    return seen && this.#advanced(seen, startMs);
  }

  #advanced(seen: Seen, startMs: number): Life {
    const after = (atMs: number): number => Math.max(0, atMs - startMs);
    const {
      named: { kind, namespace, name },
      uid,
      steps,
      goneMs,
      isListed,
    } = seen;
    const life = (seen.life ??= {
      ...{ resource: kind === "Node" ? "nodes" : "resourcequotas", kind, namespace, name, uid, owner: undefined },
      ...{ from: after(steps[0]?.atMs ?? startMs), states: [], sizes: [], restarts: [], restartCount: 0, changes: [] },
    });
    for (const { atMs, state, reason } of steps.slice(life.states.length)) {
      const [before, what] = [life.states.at(-1)?.[2], life.states.length > 0 ? "changed" : isListed ? "exists" : "created"] as const;
      life.changes.push({
        at: after(atMs),
        what,
        differences: [{ field: "state", ...(before !== undefined && { from: before }), to: reason }],
      });
      life.states.push([after(atMs), state, reason]);
    }
    if (goneMs !== undefined) life.until = after(goneMs);
    return life;
  }
}

type StateOf<E> = (object: E) => readonly [state: PodState, reason: string];

function named<E extends EvidenceObjects["nodes" | "resourcequotas"]>(
  object: E | undefined,
  stateOf: StateOf<E>,
): (Omit<Named, "kind"> & { readonly uid: string; readonly state: ReturnType<StateOf<E>> }) | undefined {
  const { name, namespace = "", uid } = object?.metadata ?? {};
  return object === undefined || name === undefined || uid === undefined ? undefined : { name, namespace, uid, state: stateOf(object) };
}

function nodeState({ spec, status: { conditions } }: EvidenceObjects["nodes"]): ReturnType<StateOf<never>> {
  const ready = conditions.find(({ type }) => type === "Ready");
  if (ready?.status !== "True")
    return ["failed", `Ready ${ready?.status ?? "Unknown"}${ready?.reason === undefined ? "" : ` (${ready.reason})`}`];
  const pressure = conditions.find(({ type, status }) => type !== "Ready" && status === "True");
  if (pressure !== undefined) return ["waiting", pressure.type];
  return ["ready", spec.unschedulable === true ? "Ready, cordoned" : "Ready"];
}

function quotaState({ status: { hard, used } }: EvidenceObjects["resourcequotas"]): ReturnType<StateOf<never>> {
  const amounts = Object.entries(hard).map(([name, limit]) => ({ name, limit, is: used[name] ?? "0" }));
  // Quantities of different units are not compared.
  const isFull = amounts.some(({ limit, is }) => is === limit || Number(is) >= Number(limit));
  const text = amounts.slice(0, AMOUNTS_MAX).map(({ name, limit, is }) => `${name} ${is}/${limit}`);
  return [isFull ? "waiting" : "ready", `${isFull ? "full: " : ""}${text.join(", ")}`];
}
