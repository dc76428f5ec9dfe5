/** Input of a sync, from the snapshot: the owner in ReplicaSet form, its selector, and the relevant pods. */
import type { CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { compileSelector } from "@deltaloop/kube/selectors";
import type { Selector } from "@deltaloop/kube/selectors";
import type { Owner } from "../kit/writes.ts";
import type { Intent, Row, Snapshot } from "@deltaloop/store/ports";
import type { ReplicaKind } from "./kind.ts";
import type { ReplicaReason } from "./reasons.ts";

export interface Observed {
  readonly kind: "Observed";
  readonly owner: Owner;
  readonly rs: CachedReplicaSet;
  readonly selector: Selector;
  /** Controlled by the owner, in any phase. */
  readonly pods: readonly CachedPod[];
  /** Pods of the namespace without a controller. */
  readonly orphans: readonly CachedPod[];
  /** Number of calls of earlier runs that may still take effect. This run sends no create or delete before their deadline. */
  readonly pending: number;
  /** Deletes of earlier runs that got no response and may still take effect; their pods are deleted before others. */
  readonly unanswered: readonly Intent[];
}

/** `Gone`: the sync is done. `InvalidSelector`: no decision is possible; upstream logs this and waits for a change. */
export type Observation = Observed | { readonly kind: "Gone" } | { readonly kind: "InvalidSelector"; readonly message: string };

/** Source: pkg/controller/replicaset/replica_set.go syncReplicaSet, up to and with the listing of pods. */
export function observe(snapshot: Snapshot, kind: ReplicaKind): Observation {
  const { primary, dependents, orphans, intents } = snapshot;
  if (primary === undefined || primary.gone) return { kind: "Gone" };
  const rs = kind.toReplicaSet(primary.object);
  const selector = compileSelector(rs.spec.selector);
  if (selector.kind === "Invalid") return { kind: "InvalidSelector", message: selector.message };
  const { namespace, name, uid } = rs.metadata;
  return {
    kind: "Observed",
    owner: { resource: kind.resource, namespace, name, uid },
    rs,
    selector,
    pods: podsOf(dependents),
    orphans: podsOf(orphans),
    pending: intents.filter((intent) => intent.state === "pending").length,
    unanswered: intents.filter(({ verb, state }) => verb === "delete" && state === "planned"),
  };
}

export function whyNothing(observation: Exclude<Observation, Observed>): ReplicaReason {
  return observation.kind === "Gone" ? { rule: "gone", facts: {} } : { rule: "invalid selector", facts: { message: observation.message } };
}

/** The pods of `rows`, without those that a successful DELETE has removed already. */
export function podsOf(rows: readonly Row[]): readonly CachedPod[] {
  return rows.filter((row) => !row.gone).map((row) => row.object as CachedPod); // callers pass pod rows
}
