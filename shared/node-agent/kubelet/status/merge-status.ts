/** From the cached status to what the API server is told (node-agent §13.5 Merge, §13.6). */
import { formatTime } from "@deltaloop/kube/objects";
import type { CachedStatus, PodStatus } from "../../ports/node-store.ts";
import { isMirrorPod } from "../types/labels.ts";
import { DISRUPTION_TARGET, isOwnedCondition, withTerminalReadiness } from "./pod-conditions.ts";
import type { PodCondition, NodePod } from "../types/pod.ts";
import { isTerminalPhase } from "../types/pod.ts";
import { FOREIGN_FIELDS, onlyFields, sameField, withoutFields } from "./accept-status.ts";

/**
 * What the API server should say: the cached status, others' conditions as `api` has them.
 *
 * A move to a terminal phase waits while containers may still run: phase, reason and message stay as `api` has them, and
 * DisruptionTarget goes with the move. Who sees a terminal phase may take the pod's resources for free.
 *
 *     api Running, cached Failed Evicted, containers may run → Running, DisruptionTarget not sent
 *     the same, all have stopped                             → Failed Evicted, DisruptionTarget True, Ready False PodFailed
 *
 * Source: pkg/kubelet/status/status_manager.go mergePodStatus.
 */
export function mergePodStatus(api: PodStatus | undefined, cached: PodStatus, containersMayRun: boolean, nowMs: number): PodStatus {
  const old = api ?? {};
  const isMove = !isTerminalPhase(old.phase) && isTerminalPhase(cached.phase);
  const isHeld = isMove && containersMayRun;
  const told = isHeld ? old : cached;
  const nowText = formatTime(nowMs);

  const disruption = isMove && !isHeld ? cached.conditions?.find(({ type }) => type === DISRUPTION_TARGET) : undefined;
  const others = (old.conditions ?? []).filter(({ type }) => !isOwnedCondition(type));
  const conditions = [
    ...(disruption === undefined ? others : withDisruption(others, disruption, nowText)),
    ...(cached.conditions ?? []).filter(({ type }) => isOwnedCondition(type)),
  ];
  return {
    ...withoutFields(cached, ["phase", "reason", "message", ...FOREIGN_FIELDS]),
    ...onlyFields(told, ["phase", "reason", "message"]),
    ...onlyFields(old, FOREIGN_FIELDS),
    conditions: [...withTerminalReadiness(conditions, told.phase, nowText)],
  };
}

/** Its time is that of the move, for it was decided long before. */
function withDisruption(others: readonly PodCondition[], disruption: PodCondition, nowText: string): readonly PodCondition[] {
  const was = others.find(({ type }) => type === DISRUPTION_TARGET);
  const lastTransitionTime = was?.status === disruption.status ? (was.lastTransitionTime ?? nowText) : nowText;
  const sent = { ...disruption, lastTransitionTime };
  return was === undefined ? [...others, sent] : others.map((one) => (one === was ? sent : one));
}

/** Lists that the API server merges by `ip`, and that are one statement here: both addresses or none. */
const ADDRESS_LISTS: readonly string[] = ["hostIPs", "podIPs"];

/**
 * Strategic merge patch of `/status` from `api` to `merged`, guarded by the UID, or undefined when the API server says the
 * same already:
 *
 *     { metadata: { uid }, status: { phase: "Running", reason: null, conditions: [{ type: "Ready", status: "True", reason: null }] } }
 *
 * Only what differs is in it, so others' conditions are never touched. A field that must go is null, a condition of ours that
 * must go `$patch: delete`. Lists of containers are replaced whole; lists of addresses too, by `$patch: replace`.
 *
 * Source: pkg/util/pod/pod.go PatchPodStatus; patch tags of PodStatus in staging/src/k8s.io/api/core/v1/types.go.
 */
export function statusPatch(pod: { readonly uid: string }, api: PodStatus | undefined, merged: PodStatus): object | undefined {
  const { conditions: oldConditions = [], ...old } = api ?? {};
  const { conditions = [], ...fields } = merged;
  const patchedConditions = conditionsPatch(oldConditions, conditions);
  const status = {
    ...fieldsPatch(old, fields),
    ...(patchedConditions.length > 0 && { conditions: patchedConditions }),
  };
  return Object.keys(status).length === 0 ? undefined : { metadata: { uid: pod.uid }, status };
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsPatch(old: Fields, fields: Fields): Fields {
  const differing = [...new Set([...Object.keys(old), ...Object.keys(fields)])].filter((key) => !sameField(old[key], fields[key]));
  return Object.fromEntries(differing.map((key) => [key, fieldPatch(key, old[key], fields[key])]));
}

function fieldPatch(key: string, old: unknown, value: unknown): unknown {
  if (sameField(value, undefined)) return null;
  const isMerged = ADDRESS_LISTS.includes(key) && Array.isArray(value) && !sameField(old, undefined);
  return isMerged ? [{ $patch: "replace" }, ...value] : value;
}

function conditionsPatch(old: readonly PodCondition[], conditions: readonly PodCondition[]): readonly object[] {
  const changed = conditions.flatMap((condition) => {
    const { type } = condition;
    const patch = fieldsPatch({ ...old.find((one) => one.type === type) }, { ...condition });
    return Object.keys(patch).length === 0 ? [] : [{ ...patch, type }];
  });
  const gone = old.filter(({ type }) => isOwnedCondition(type) && !conditions.some((condition) => condition.type === type));
  return [...changed, ...gone.map(({ type }) => ({ type, $patch: "delete" }))];
}

/**
 * Whether the API server may forget the pod: it is being deleted, everybody can see that it is over, and nothing of it is
 * left on the node. Never a mirror pod, whose static pod is not the API server's to end.
 *
 * Source: status_manager.go canBeDeleted.
 */
export function canBeDeleted(apiPod: NodePod, cached: CachedStatus): boolean {
  const isDeleting = apiPod.metadata.deletionTimestamp !== undefined && !isMirrorPod(apiPod);
  return isDeleting && isTerminalPhase(apiPod.status?.phase) && cached.podIsFinished === true;
}
