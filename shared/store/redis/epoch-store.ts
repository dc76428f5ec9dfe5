/** Epochs, fences, lists, checkpoints and the gate (informer §10.7, §11.6, §11.7, §14). */
import { infoIn, isResourceVersion } from "@deltaloop/kube/objects";
import type { ObjectKey } from "@deltaloop/kube/objects";
import type { EpochRecord, EpochStore, Forgery, LaneState, QuarantineEntry, ResourceHealth, ResourceState } from "../ports/store.ts";
import { describeStop } from "../ports/guard-store.ts";
import { UNPROVEN_REASON } from "../ports/lineage.ts";
import type { Checkpoint, Lineage, Proof, TakenLineage, TermToken } from "../ports/store.ts";
import { cutForgery, FORGERIES_MAX } from "../forgery-list.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { firstOfLanes, gateArgs } from "./context.ts";
import type { Context } from "./context.ts";
import { US } from "./rows.ts";
import { openStop } from "./stop-store.ts";
import { endedArgs } from "./tally-store.ts";

const RECORD_FIELDS = ["epoch", "clusterUid", "projection", "digestPrefix", "hashLayout", "fence", "release", "lanes"] as const;
const NO_GATE = "there is no epoch";

export function createEpochStore(context: Context): Omit<EpochStore, "forgetEpochs"> {
  const { connection, names: root } = context;
  const boundToPrimary = isBoundToPrimary(context);
  return {
    async epoch() {
      const values = await connection.fields(root.epoch, RECORD_FIELDS);
      return values[0] === null ? undefined : recordOf(RECORD_FIELDS.map((field, i) => [field, values[i] ?? ""] as const));
    },

    async lineage() {
      const reply = asList(await context.run(context.keys("lineage", { opened: root.opened }).call("", {})));
      const recentEpochs = asNumber(reply[0]);
      if (reply.length === 1) return { recentEpochs };
      const record = recordOf(asPairs(reply.slice(5)));
      const [token, checkpoint] = [tokenOf(reply.slice(1, 3)), checkpointOf(reply.slice(3, 5))];
      return { current: { record, ...(token && { token }), ...(checkpoint && { checkpoint }) }, recentEpochs };
    },

    async forgetRecentEpochs() {
      await context.run(context.keys("forgetOpened", { opened: root.opened }).call("", {}));
    },

    async openEpoch(record, over, token) {
      const { epoch, clusterUid, projection, digestPrefix, hashLayout, release = "", fence, lanes } = record;
      const identity = { clusterUid, projection: String(projection), digestPrefix, hashLayout };
      const call = context.keys("openEpoch", { opened: root.opened }).call(epoch, {
        over: typeof over === "object" ? over.record.epoch : (over ?? ""),
        overLineage: typeof over === "object" ? lineageText(over) : "",
        ...identity,
        release,
        fence: checkFence(fence),
        term: token?.term ?? "",
        termCount: String(token?.count ?? ""),
        laneCount: String(lanes ?? ""),
      });
      const [kind, ...fields] = asList(await context.run(call));
      return kind === "opened" ? { kind: "opened" } : { kind: "exists", record: recordOf(asPairs(fields)) };
    },

    openFence: (request) => openFence(context, boundToPrimary, request),

    async openGeneration({ epoch, fence, resource }) {
      const names = root.of(epoch);
      const { reply: answer } = await context.runByLanes(() => {
        const lanes = context.lanes(resource);
        const keys = { meta: names.meta(resource), needed: names.needed(resource), lanes: firstOfLanes(names, resource, lanes) };
        return context.keys("openGeneration", keys).call(epoch, { fence: checkFence(fence), resource, laneCount: String(lanes) });
      });
      const reply = asList(answer);
      if (reply[0] === "noEpoch") return { kind: "noEpoch" };
      if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
      return { kind: "open", generation: asNumber(reply[1]), floor: asText(reply[2]) };
    },

    async checkpoint({ epoch, fence, sent, beat, answered, nowMs, token, confirmed = 0, release = "" }) {
      const names = root.of(epoch);
      const { reply: answer } = await context.runByLanes(() => {
        const table = context.keys("checkpoint", {});
        return table.call(epoch, {
          fence: checkFence(fence),
          beat,
          answered,
          leaderNow: nowMs,
          term: token?.term ?? "",
          termCount: token?.count,
          confirmed,
          release,
          queues: context.catalog.controllers.map((controller) => ({ base: table.block(names.queue(controller)) })),
          resources: context.catalog.views.map((resource) => {
            const lanes = context.lanes(resource);
            return {
              name: resource,
              metaSlot: table.slot(names.meta(resource)),
              neededSlot: table.slot(names.needed(resource)),
              lanesBase: table.block(firstOfLanes(names, resource, lanes)),
              lanes,
              rowsSlot: lanes === 1 ? table.slot(names.lane(resource, 0)[1]) : 0,
              sentRV: sent[resource] ?? "",
            };
          }),
        });
      });
      const reply = asList(answer);
      if (reply[0] === "noEpoch") return { kind: "noEpoch" };
      if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
      if (reply[0] === "setBack" || reply[0] === "damaged") return { kind: reply[0], why: asText(reply[1]) };
      return { kind: "ok", resources: reply.slice(2).map((each) => healthOf(context, each)), ...(reply[1] === 1 && { full: true }) };
    },

    async heartbeat({ epoch, fence, sentMs, lanes }) {
      const names = root.of(epoch);
      const table = context.keys("heartbeat", {});
      const args = lanes.map(({ resource, lane, sequence, rv }) => {
        const [state, , tombstones] = names.lane(resource, lane);
        if (!isResourceVersion(rv)) throw new RangeError(`not a version: "${rv}"`);
        return { stateSlot: table.slot(state), tombstonesSlot: table.slot(tombstones), sequence, rv };
      });
      const reply = asList(await context.run(table.call(epoch, { fence: checkFence(fence), sentMs, lanes: args })));
      const kind = reply[0];
      if (kind === "epoch" || kind === "fence") return { kind: "dropped", why: kind };
      if (kind === "noEpoch" || kind === "late") return { kind };
      return { kind: "applied", ahead: reply.slice(1).flatMap((index) => lanes[asNumber(index)] ?? []) };
    },

    async markSuspect(resource, reason) {
      await context.runInCurrentEpoch((names) => context.keys("markSuspect", { meta: names.meta(resource) }).call(names.epoch, { reason }));
    },

    async gate(controller) {
      const answer = await context.runInCurrentEpoch((names) => {
        const table = context.keys("gate", {});
        return table.call(names.epoch, gateArgs(context, names, table, infoIn(context.catalog, controller).reads));
      });
      if (!answer) return { open: false, reason: NO_GATE };
      if (answer.reply[0] === "stopped")
        return { open: false, reason: describeStop(openStop(context, asText(answer.reply[1]), asText(answer.reply[2]))) };
      return answer.reply[0] === "open" ? { open: true } : { open: false, reason: asText(answer.reply[1]) };
    },

    async quarantine(entry, ended) {
      await context.runInCurrentEpoch((names) =>
        context
          .keys("quarantine", { quarantine: names.quarantine, tally: root.tally })
          .call(names.epoch, { entry: JSON.stringify(entry), ...endedArgs(ended) }),
      );
    },

    async takeTurns(epoch, jobs) {
      const table = context.keys("claimPeriodicJobs", { jobs: root.of(epoch).jobs });
      const turns = jobs.map(({ job, afterMs }) => ({ job, afterMs: Math.ceil(afterMs) }));
      return asList(await context.run(table.call(epoch, { turns }))).map(asText);
    },

    async quarantined() {
      const answer = await context.runInCurrentEpoch((names) =>
        context.keys("quarantined", { quarantine: names.quarantine }).call(names.epoch, {}),
      );
      return (answer?.reply.slice(1) ?? []).map((entry) => JSON.parse(asText(entry)) as QuarantineEntry); // quarantine() wrote this entry
    },

    async noteForgery(forgery) {
      const entry = JSON.stringify(cutForgery(forgery));
      await context.run(context.keys("noteForgery", { forgeries: root.forgeries }).call("", { entry, kept: FORGERIES_MAX }));
    },

    async forgeries() {
      const table = context.keys("forgeries", { forgeries: root.forgeries });
      const reply = asList(await context.run(table.call("", { kept: FORGERIES_MAX })));
      return reply.map((entry) => JSON.parse(asText(entry)) as Forgery); // noteForgery() wrote this entry
    },
  };
}

async function openFence(
  context: Context,
  isBoundToPrimary: boolean,
  request: Parameters<EpochStore["openFence"]>[0],
): ReturnType<EpochStore["openFence"]> {
  const { epoch, fence, resource, lanesMax, grows = false, token, expected, proof } = request;
  const names = context.names.of(epoch);
  const lanes = grows && lanesMax !== undefined ? lanesMax : request.lanes;
  const table = context.keys("openFence", {
    meta: names.meta(resource),
    lanes: Array.from({ length: lanes }, (_, lane) => names.lane(resource, lane)).flat(),
  });
  const given = {
    fence: checkFence(fence),
    laneCount: String(lanes),
    grows,
    isBoundToPrimary,
    resource,
    ...fenceTermArgs(token, expected, proof),
  };
  const reply = asList(await context.run(table.call(epoch, given)));
  if (reply[0] === "noEpoch") return { kind: "noEpoch" };
  if (reply[0] === "foreign" || reply[0] === "equalFence") return { kind: reply[0] };
  if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
  if (reply[0] === "damaged") return { kind: "damaged", why: asText(reply[1]) };
  if (reply[0] === "lanes") {
    const stored = asNumber(reply[1]);
    const isKnown = lanesMax !== undefined && [1, lanesMax].includes(stored) && (stored !== request.lanes || grows);
    if (!isKnown) return { kind: "otherLanes", lanes: stored };
    return await openFence(context, isBoundToPrimary, { ...request, lanes: stored, grows: false });
  }
  context.believe(resource, lanes);
  const states: LaneState[] = [];
  for (let lane = 0; lane < lanes; lane++) {
    const [last, watermark, generation, frozen] = reply.slice(3 + 4 * lane);
    states.push({ lane, last: asNumber(last), watermark: asText(watermark), generation: asNumber(generation), frozen: frozen === 1 });
  }
  return { kind: "open", state: stateOf(reply[1]), syncedGeneration: asNumber(reply[2]), lanes: states };
}

function checkFence(fence: string): string {
  if (!isResourceVersion(fence)) throw new RangeError(`not a fence: "${fence}"`);
  return fence;
}

function recordOf(pairs: readonly (readonly [field: string, value: string])[]): EpochRecord {
  const fields = new Map(pairs);
  const text = (field: (typeof RECORD_FIELDS)[number]): string => fields.get(field) ?? "";
  return {
    epoch: text("epoch"),
    clusterUid: text("clusterUid"),
    projection: Number(text("projection")),
    digestPrefix: text("digestPrefix"),
    hashLayout: text("hashLayout"),
    fence: text("fence"),
    ...(text("release") !== "" && { release: text("release") }),
    ...(text("lanes") !== "" && { lanes: Number(text("lanes")) }),
  };
}

function tokenOf([term, count]: readonly Reply[]): TermToken | undefined {
  return term === "" ? undefined : { term: asText(term), count: Number(asText(count)) };
}

function checkpointOf([fence, number]: readonly Reply[]): Checkpoint | undefined {
  return fence === "" ? undefined : { fence: asText(fence), number: Number(asText(number)) };
}

/** SL2: whether a failover can be detected and matters. Class A loses no writes; in a cluster slots move anyway. */
function isBoundToPrimary({ options, connection }: Context): boolean {
  return options.durability !== "A" && !connection.isCluster;
}

/** Decodes the part of the lineage that `take` returns. */
export function takenLineageOf(reply: Reply | undefined, context: Context): TakenLineage {
  const [term, count, fence, marks, ...held] = asList(reply);
  const token = tokenOf([term ?? "", count ?? ""]);
  const checkpoint = checkpointOf(held);
  return {
    ...(token && { token }),
    fence: asText(fence),
    marks: Number(asText(marks)),
    ...(checkpoint && { checkpoint }),
    ...(!isBoundToPrimary(context) && { losesUnseen: true }),
  };
}

/** The format that open-epoch.lua compares. */
function lineageText({ token, checkpoint }: Lineage): string {
  return [token?.term, token?.count, checkpoint?.fence, checkpoint?.number].map((part) => part ?? "").join(US);
}

function fenceTermArgs(token: TermToken | undefined, expected: string | undefined, proof: Proof | undefined) {
  return {
    term: token?.term ?? "",
    termCount: String(token?.count ?? ""),
    expected: expected ?? "",
    proofTerm: proof?.token.term ?? "",
    proofCount: proof?.token.count,
    proofFence: proof?.checkpoint.fence ?? "",
    proofNumber: proof?.checkpoint.number,
    isProofExact: proof?.isExact ?? false,
    unprovenReason: UNPROVEN_REASON,
  };
}

/** Members of `need` are `<lane>:<key>`, so that a lane's manifest can replace its own. */
function withoutLane(member: string): ObjectKey {
  return member.slice(member.indexOf(":") + 1);
}

function stateOf(reply: Reply | undefined): ResourceState {
  switch (reply) {
    case "INIT":
    case "SYNCING":
    case "SYNCED":
    case "SUSPECT":
      return reply;
    default:
      throw new TypeError(`unknown state: ${JSON.stringify(reply)}`);
  }
}

function healthOf({ catalog }: Context, reply: Reply): ResourceHealth {
  const [name, state, syncedGeneration, generation, hole, frozen, needed, watermarks, written, applied, rows] = asList(reply);
  const resource = catalog.views.find((each) => each === name);
  if (!resource) throw new TypeError(`unknown resource: ${JSON.stringify(name)}`);
  const holeForMs = asNumber(hole);
  return {
    resource,
    state: stateOf(state),
    syncedGeneration: asNumber(syncedGeneration),
    generation: asNumber(generation),
    ...(holeForMs >= 0 && { holeForMs }),
    frozenLanes: asList(frozen).map(asNumber),
    needed: asList(needed)
      .map((member) => withoutLane(asText(member)))
      .toSorted(),
    watermarks: asList(watermarks).map(asText),
    applied: asList(applied).map(asNumber),
    ...(asNumber(rows) >= 0 && { rows: asNumber(rows) }),
    ...(written !== "" && { written: asText(written) }),
  };
}
