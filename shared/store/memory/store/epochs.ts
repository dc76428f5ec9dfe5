/** Epochs, fences, lists and checkpoints (informer §10.6, §10.7, §11.7, §14): the watcher's calls to the Store. */
import { compareResourceVersions, maxResourceVersion } from "@deltaloop/kube/objects";
import type { View } from "@deltaloop/kube/objects";
import type { Ended, EpochStore, Forgery, QuarantineEntry, ResourceHealth } from "../../ports/store.ts";
import { cutForgery, FORGERIES_MAX } from "../../forgery-list.ts";
import { growLanes, newEpoch, newResource } from "./data.ts";
import type { EpochData, MemoryData, ResourceData } from "./data.ts";
import { applyHeartbeat } from "./gate.ts";
import { checkClock, storeTime } from "./store-time.ts";
import { tally } from "./tallies.ts";
import { OTHER_PRIMARY } from "../../store-options.ts";
import { UNPROVEN_REASON } from "../../ports/lineage.ts";
import type { Lineage, TermToken } from "../../ports/store.ts";
import { isOver, lineageOf, proves } from "./lineage.ts";

type Answer<K extends keyof EpochStore> = Awaited<ReturnType<EpochStore[K]>>;
type Asked<K extends keyof EpochStore> = Parameters<EpochStore[K]>[0];

const QUARANTINE_MAX = 1_000;
/** The fence before the first fence is opened. */
const NO_FENCE = "0";

/** Number of opening times that are kept. */
const OPENED_MAX = 8;

export function openEpoch(
  data: MemoryData,
  record: Asked<"openEpoch">,
  over: string | Lineage | undefined,
  token: TermToken | undefined,
  nowMs: number,
): Answer<"openEpoch"> {
  const current = data.epoch?.record;
  if (current && (current.epoch === record.epoch || !isOver(data.epoch, over))) return { kind: "exists", record: current };
  data.epoch = newEpoch(data.catalog, Object.freeze({ ...record }), token);
  data.openedMs = [...data.openedMs, nowMs].slice(-OPENED_MAX);
  return { kind: "opened" };
}

export function openFence(data: MemoryData, request: Asked<"openFence">): Answer<"openFence"> {
  const epoch = epochNamed(data, request.epoch);
  if (!epoch) return { kind: "noEpoch" };
  if (epoch.opened.has(request.resource) && !epoch.resources.has(request.resource))
    return { kind: "damaged", why: `${request.resource} is missing` };
  const resource = epoch.resources.get(request.resource) ?? newResource(NO_FENCE, request.lanes, data.primary);
  const order = compareResourceVersions(request.fence, resource.fence);
  if (order < 0) return { kind: "fenced", fence: resource.fence };
  const { lanes, lanesMax } = request;
  const isKnown = resource.lanes.length === lanes || (lanesMax !== undefined && [1, lanesMax].includes(resource.lanes.length));
  if (!isKnown) return { kind: "otherLanes", lanes: resource.lanes.length };
  const { token, expected, proof } = request;
  if (token) {
    const isFirst = epoch.token?.term !== token.term;
    if (isFirst && lineageOf(epoch).token?.term !== expected) return { kind: "foreign" };
    if (order === 0 && resource.term !== token.term) return { kind: "equalFence" };
    if (isFirst) epoch.isProven = proves(epoch, proof);
    if (isFirst || epoch.tokenFence !== request.fence) [epoch.token, epoch.tokenFence] = [token, request.fence];
    if (order > 0 && resource.state === "SYNCED" && !epoch.isProven) suspect(epoch, resource, UNPROVEN_REASON);
  }
  if (order > 0) resource.term = token?.term;
  if (order > 0 && !token) epoch.token = undefined;
  epoch.resources.set(request.resource, resource);
  epoch.opened.add(request.resource);
  if (order > 0) raiseFence(resource, request.fence);
  if (order > 0 && request.grows === true && lanesMax !== undefined) growLanes(resource, lanesMax);
  if (resource.primary !== data.primary) suspect(epoch, resource, OTHER_PRIMARY);
  resource.primary = data.primary;
  return {
    kind: "open",
    state: resource.state,
    syncedGeneration: resource.syncedGeneration,
    lanes: resource.lanes.map(({ last, watermark, generation, frozen }, lane) => ({ lane, last, watermark, generation, frozen })),
  };
}

/**
 * Resets sequences and holes, because the new stream numbers its messages from 1. Keeps the watermarks: repeated events at or below them
 * change nothing.
 */
function raiseFence(resource: ResourceData, fence: string): void {
  resource.fence = fence;
  for (const lane of resource.lanes) {
    lane.last = 0;
    lane.holes.clear();
    lane.holeSinceMs = undefined;
    lane.stash = undefined;
  }
}

export function openGeneration(data: MemoryData, request: Asked<"openGeneration">): Answer<"openGeneration"> {
  const epoch = epochNamed(data, request.epoch);
  if (!epoch) return { kind: "noEpoch" };
  const resource = epoch.resources.get(request.resource);
  if (resource?.fence !== request.fence) return { kind: "fenced", fence: resource?.fence ?? NO_FENCE };
  // After a loss the Store may have forgotten a list whose manifests still arrive: the list's number must not be reused.
  resource.generation = Math.max(resource.generation, resource.syncedGeneration) + 1;
  resource.needed.clear();
  if (resource.state === "INIT") resource.state = "SYNCING";
  return {
    kind: "open",
    generation: resource.generation,
    floor: resource.lanes.map((lane) => lane.watermark).reduce(maxResourceVersion, "0"),
  };
}

/**
 * Every open resource, and every resource that the caller streams, must have exactly the caller's fence. A greater fence means that another
 * watcher leads; a smaller one means that the Store lost writes (SL1).
 */
export function checkpoint(data: MemoryData, request: Asked<"checkpoint">, serverMs: number): Answer<"checkpoint"> {
  const { nowMs } = storeTime(data.epoch?.clock, serverMs);
  const epoch = epochNamed(data, request.epoch);
  if (!epoch) return { kind: "noEpoch" };
  const concerned = data.catalog.views.filter((name) => epoch.resources.has(name) || request.sent[name] !== undefined);
  const opened = data.catalog.views.flatMap((name) => epoch.resources.get(name) ?? []);
  const greatest = opened.map(({ fence }) => fence).reduce(maxResourceVersion, NO_FENCE);
  if (compareResourceVersions(greatest, request.fence) > 0) return { kind: "fenced", fence: greatest };
  const missing = concerned.find((name) => !epoch.resources.has(name));
  if (missing !== undefined) return lost(epoch, "damaged", `${missing} is missing`, nowMs);
  const smaller = opened.find(({ fence }) => fence !== request.fence);
  if (smaller) return lost(epoch, "setBack", `its fence is ${smaller.fence}`, nowMs);
  if (opened.some(({ primary }) => primary !== data.primary)) return lost(epoch, "setBack", OTHER_PRIMARY, nowMs);
  const { token, confirmed = 0 } = request;
  if (token && epoch.token?.term !== token.term)
    return lost(epoch, "setBack", "its leadership term is not this watcher's: another leader wrote it, or Redis was rolled back", nowMs);
  if (token && epoch.token && epoch.token.count < confirmed)
    return lost(epoch, "setBack", `it has count ${epoch.token.count} of the leadership term but has confirmed ${confirmed}`, nowMs);
  const held = epoch.checkpoint?.fence === request.fence ? epoch.checkpoint.number : 0;
  if (held < request.answered) return lost(epoch, "setBack", `it has checkpoint ${held} but has acknowledged ${request.answered}`, nowMs);
  epoch.checkpoint = { fence: request.fence, number: request.beat };
  epoch.clock = checkClock(epoch.clock, request, serverMs);
  if (token) epoch.token = token;
  if (request.release !== undefined) epoch.record = { ...epoch.record, release: request.release };
  for (const [name, resource] of epoch.resources) resource.sent = request.sent[name] ?? resource.sent;
  const resources = data.catalog.views.flatMap((name) => {
    const resource = epoch.resources.get(name);
    return resource ? [healthOf(name, resource, nowMs)] : [];
  });
  return { kind: "ok", resources };
}

/** HB1–HB4. */
export function heartbeat(data: MemoryData, { epoch: name, fence, sentMs, lanes }: Asked<"heartbeat">, nowMs: number): Answer<"heartbeat"> {
  if (!data.epoch) return { kind: "noEpoch" };
  const epoch = epochNamed(data, name);
  if (!epoch) return { kind: "dropped", why: "epoch" };
  if (epoch.heartbeat?.fence === fence && sentMs <= epoch.heartbeat.sentMs) return { kind: "late" };
  const open = lanes.flatMap((each) => {
    const resource = epoch.resources.get(each.resource);
    const lane = resource?.fence === fence ? resource.lanes[each.lane] : undefined;
    return lane ? [{ each, lane }] : [];
  });
  if (open.length === 0) return { kind: "dropped", why: "fence" };
  epoch.heartbeat = { fence, sentMs };
  return { kind: "applied", ahead: open.filter(({ each, lane }) => applyHeartbeat(lane, each, nowMs)).map(({ each }) => each) };
}

/** SL1, SL3: closes every gate in this step and ends all earlier runs; their keys are due at once. */
function lost(epoch: EpochData, kind: "setBack" | "damaged", why: string, nowMs: number): Answer<"checkpoint"> {
  for (const resource of epoch.resources.values()) suspect(epoch, resource, why);
  for (const queue of Object.values(epoch.queues)) {
    for (const key of queue.runs.keys()) queue.ready.set(key, Math.min(queue.ready.get(key) ?? nowMs, nowMs));
    queue.runs.clear();
  }
  return { kind, why };
}

function healthOf(name: View, resource: ResourceData, nowMs: number): ResourceHealth {
  const holes = resource.lanes.flatMap(({ holeSinceMs }) => (holeSinceMs === undefined ? [] : [Math.max(0, nowMs - holeSinceMs)]));
  return {
    resource: name,
    state: resource.state,
    syncedGeneration: resource.syncedGeneration,
    generation: resource.generation,
    ...(holes.length > 0 && { holeForMs: Math.max(...holes) }),
    frozenLanes: [...resource.lanes.entries()].flatMap(([lane, { frozen }]) => (frozen ? [lane] : [])),
    needed: [...resource.needed].sort(),
    watermarks: resource.lanes.map((lane) => lane.watermark),
    applied: resource.lanes.map(({ last }) => last),
    ...(resource.lanes.length === 1 && { rows: resource.lanes[0]?.rows.size ?? 0 }),
    ...(resource.written !== undefined && { written: resource.written }),
  };
}

/** Marks a resource SUSPECT. A resource that was never listed stays INIT: its gate is closed and a list will follow. */
export function markSuspect(data: MemoryData, name: View, reason: string): void {
  const resource = data.epoch?.resources.get(name);
  if (data.epoch && resource) suspect(data.epoch, resource, reason);
}

function suspect(epoch: EpochData, resource: ResourceData, reason: string): void {
  if (resource.state === "INIT") return;
  epoch.suspectMarks++;
  resource.state = "SUSPECT";
  resource.suspects++;
  resource.suspectReason = reason;
  resource.suspectGeneration = resource.generation;
}

export function quarantine(data: MemoryData, entry: QuarantineEntry, ended: Ended | undefined): void {
  if (!data.epoch) return;
  if (ended) tally(data, { resource: ended.resource ?? "unknown", lane: ended.lane ?? 0 }, ended.items, { [ended.fate]: ended.items });
  data.epoch.quarantine = [...data.epoch.quarantine, Object.freeze({ ...entry })].slice(-QUARANTINE_MAX);
}

export function noteForgery(data: MemoryData, forgery: Forgery): void {
  data.forgeries = [...data.forgeries, Object.freeze(cutForgery(forgery))].slice(-FORGERIES_MAX);
}

export function epochNamed(data: MemoryData, epoch: string): EpochData | undefined {
  return data.epoch?.record.epoch === epoch ? data.epoch : undefined;
}
