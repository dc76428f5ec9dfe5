/** Merges the cached status with the status in the API server, and builds the patch (node-agent §13.5 Merge, §13.6). */
import { formatTime } from "@deltaloop/kube/objects";
import type { CachedStatus, PodStatus } from "../../ports/node-store.ts";
import { isMirrorPod } from "../types/labels.ts";
import { DISRUPTION_TARGET, isOwnedCondition, withTerminalReadiness } from "./pod-conditions.ts";
import { isTerminalPhase, type PodCondition, type NodePod } from "../types/pod.ts";
import { API_SERVER_FIELDS, onlyFields, sameField, withoutFields } from "./accept-status.ts";

/**
 * Returns the status to send: the cached status with the conditions of other components from `api`. While containers may still run, a
 * terminal phase, its reason and DisruptionTarget are not sent, because observers consider the resources of a terminal pod free.
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
  const shown = isHeld ? old : cached;
  const nowText = formatTime(nowMs);

  const disruption = isMove && !isHeld ? cached.conditions?.find(({ type }) => type === DISRUPTION_TARGET) : undefined;
  const others = (old.conditions ?? []).filter(({ type }) => !isOwnedCondition(type));
  const conditions = [
    ...(disruption === undefined ? others : withDisruption(others, disruption, nowText)),
    ...(cached.conditions ?? []).filter(({ type }) => isOwnedCondition(type)),
  ];
  return {
    ...withoutFields(cached, ["phase", "reason", "message", ...API_SERVER_FIELDS]),
    ...onlyFields(shown, ["phase", "reason", "message"]),
    ...onlyFields(old, API_SERVER_FIELDS),
    conditions: [...withTerminalReadiness(conditions, shown.phase, nowText)],
  };
}

/** The transition time is the time at which the condition is sent, not the time of the decision. */
function withDisruption(others: readonly PodCondition[], disruption: PodCondition, nowText: string): readonly PodCondition[] {
  const was = others.find(({ type }) => type === DISRUPTION_TARGET);
  const lastTransitionTime = was?.status === disruption.status ? (was.lastTransitionTime ?? nowText) : nowText;
  const sent = { ...disruption, lastTransitionTime };
  return was === undefined ? [...others, sent] : others.map((one) => (one === was ? sent : one));
}

/** Lists that the API server would merge by `ip`, but that are replaced as a whole here. */
const ADDRESS_LISTS: readonly string[] = ["hostIPs", "podIPs"];

/**
 * Returns the strategic merge patch for `/status`, with the UID as a precondition; undefined if nothing differs.
 *
 *     { metadata: { uid }, status: { phase: "Running", reason: null, conditions: [{ type: "Ready", status: "True", reason: null }] } }
 *
 * The patch contains only differences, so it leaves conditions of other components unchanged. Removed fields are null, and removed
 * conditions of the agent are `$patch: delete`. Container lists are replaced; address lists use `$patch: replace`. Source:
 * pkg/util/pod/pod.go PatchPodStatus; patch tags of PodStatus in staging/src/k8s.io/api/core/v1/types.go.
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
 * Whether the agent may complete the deletion of the API object: the deletion is requested, the phase is terminal, and nothing of the pod
 * is left on the node. Always false for a mirror pod. Source: status_manager.go canBeDeleted.
 */
export function canBeDeleted(apiPod: NodePod, cached: CachedStatus): boolean {
  const isDeleting = apiPod.metadata.deletionTimestamp !== undefined && !isMirrorPod(apiPod);
  return isDeleting && isTerminalPhase(apiPod.status?.phase) && cached.podIsFinished === true;
}
