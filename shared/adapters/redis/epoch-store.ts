/** Epochs, fences, generations, checkpoints and the gate (informer §10.7, §11.6, §11.7, §14). */
import { isResourceVersion } from "../../api/resource-version.ts";
import { CACHED_RESOURCES, CONTROLLER_INFO, CONTROLLERS } from "../../api/resources.ts";
import type { CachedResource, ObjectKey } from "../../api/resources.ts";
import type { EpochRecord, EpochStore, Forgery, LaneState, QuarantineEntry, ResourceHealth, ResourceState } from "../../ports/store.ts";
import { describeStop } from "../../ports/store/guard-store.ts";
import { cutForgery, FORGERIES_MAX } from "../forgery-list.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { gateArgs } from "./context.ts";
import type { Context } from "./context.ts";
import { openStop } from "./guard-store.ts";
import { KeyTable } from "./keys.ts";
import { endedArgs } from "./tally-store.ts";

const RECORD_FIELDS = ["epoch", "clusterUid", "projection", "digestPrefix", "hashLayout", "fence"] as const;
const NO_GATE = "there is no epoch";

export function createEpochStore(context: Context): Omit<EpochStore, "forgetEpochs"> {
  const { connection, names: root } = context;
  const boundToPrimary = context.options.durability !== "A" && !connection.isCluster;
  const checkFence = (fence: string): string => {
    if (!isResourceVersion(fence)) throw new RangeError(`not a fence: "${fence}"`);
    return fence;
  };
  return {
    async epoch() {
      const values = await connection.fields(root.epoch, RECORD_FIELDS);
      return values[0] === null ? undefined : recordOf(RECORD_FIELDS.map((field, i) => [field, values[i] ?? ""] as const));
    },

    async openEpoch(record, over) {
      const { epoch, clusterUid, projection, digestPrefix, hashLayout, fence } = record;
      const args = [context.now(), epoch, over ?? "", clusterUid, String(projection), digestPrefix, hashLayout, checkFence(fence)];
      const [kind, ...fields] = asList(await connection.run("openEpoch", [root.epoch], args));
      return kind === "opened" ? { kind: "opened" } : { kind: "exists", record: recordOf(asPairs(fields)) };
    },

    async openFence({ epoch, fence, resource, lanes }) {
      const names = root.of(epoch);
      const keys = [root.epoch, names.meta(resource)];
      for (let lane = 0; lane < lanes; lane++) keys.push(...names.lane(resource, lane));
      const reply = asList(
        await connection.run("openFence", keys, [
          context.now(),
          epoch,
          checkFence(fence),
          String(lanes),
          boundToPrimary ? "1" : "0",
          resource,
        ]),
      );
      if (reply[0] === "noEpoch") return { kind: "noEpoch" };
      if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
      if (reply[0] === "damaged") return { kind: "damaged", why: asText(reply[1]) };
      if (reply[0] === "lanes")
        throw new RangeError(
          `${resource} has ${asNumber(reply[1])} lanes in this epoch, not ${lanes}: their number changes with the epoch only`,
        );
      const states: LaneState[] = [];
      for (let lane = 0; lane < lanes; lane++) {
        const [last, watermark, generation, frozen] = reply.slice(3 + 4 * lane);
        states.push({ lane, last: asNumber(last), watermark: asText(watermark), generation: asNumber(generation), frozen: frozen === 1 });
      }
      return { kind: "open", state: stateOf(reply[1]), syncedGeneration: asNumber(reply[2]), lanes: states };
    },

    async openGeneration({ epoch, fence, resource }) {
      const names = root.of(epoch);
      const reply = asList(
        await context.run("openGeneration", () => {
          const lanes = context.lanes(resource);
          const keys = [
            root.epoch,
            names.meta(resource),
            names.needed(resource),
            ...Array.from({ length: lanes }, (_, lane) => names.lane(resource, lane)[0]),
          ];
          return { keys, args: [context.now(), epoch, checkFence(fence), resource, String(lanes)] };
        }),
      );
      if (reply[0] === "noEpoch") return { kind: "noEpoch" };
      if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
      return { kind: "open", generation: asNumber(reply[1]), floor: asText(reply[2]) };
    },

    async checkpoint({ epoch, fence, sent, beat, answered }) {
      const names = root.of(epoch);
      const reply = asList(
        await context.run("checkpoint", () => {
          const table = new KeyTable([root.epoch]);
          const queues = CONTROLLERS.map((controller) => String(table.block(names.queue(controller))));
          const args = [context.now(), epoch, checkFence(fence), String(beat), String(answered), String(queues.length), ...queues];
          args.push(String(CACHED_RESOURCES.length));
          for (const resource of CACHED_RESOURCES) {
            const lanes = context.lanes(resource);
            const l = table.block(Array.from({ length: lanes }, (_, lane) => names.lane(resource, lane)[0]));
            args.push(
              resource,
              String(table.slot(names.meta(resource))),
              String(table.slot(names.needed(resource))),
              String(l),
              String(lanes),
              sent[resource] ?? "",
            );
          }
          return { keys: table.keys, args };
        }),
      );
      if (reply[0] === "noEpoch") return { kind: "noEpoch" };
      if (reply[0] === "fenced") return { kind: "fenced", fence: asText(reply[1]) };
      if (reply[0] === "setBack" || reply[0] === "damaged") return { kind: reply[0], why: asText(reply[1]) };
      return { kind: "ok", resources: reply.slice(2).map(healthOf), ...(reply[1] === 1 && { full: true }) };
    },

    async markSuspect(resource, reason) {
      await context.runInCurrentEpoch("markSuspect", (names) => ({
        keys: [root.epoch, names.meta(resource)],
        args: [context.now(), names.epoch, reason],
      }));
    },

    async gate(controller) {
      const answer = await context.runInCurrentEpoch("gate", (names) => {
        const table = new KeyTable([root.epoch]);
        const gate = gateArgs(context, names, table, CONTROLLER_INFO[controller].reads);
        return { keys: table.keys, args: [context.now(), names.epoch, ...gate] };
      });
      if (!answer) return { open: false, reason: NO_GATE };
      if (answer.reply[0] === "stopped") return { open: false, reason: describeStop(openStop(context, asText(answer.reply[1]))) };
      return answer.reply[0] === "open" ? { open: true } : { open: false, reason: asText(answer.reply[1]) };
    },

    async quarantine(entry, ended) {
      await context.runInCurrentEpoch("quarantine", (names) => ({
        keys: [root.epoch, names.quarantine, root.tally],
        args: [context.now(), names.epoch, JSON.stringify(entry), ...endedArgs(ended)],
      }));
    },

    async takeTurn(epoch, job, afterMs) {
      const keys = [root.epoch, root.of(epoch).turns];
      return asNumber(await connection.run("takeTurn", keys, [context.now(), epoch, job, String(Math.ceil(afterMs))])) === 1;
    },

    async quarantined() {
      const answer = await context.runInCurrentEpoch("quarantined", (names) => ({
        keys: [root.epoch, names.quarantine],
        args: [context.now(), names.epoch],
      }));
      return (answer?.reply.slice(1) ?? []).map((entry) => JSON.parse(asText(entry)) as QuarantineEntry); // quarantine wrote it
    },

    async noteForgery(forgery) {
      const args = [context.now(), "", JSON.stringify(cutForgery(forgery)), String(FORGERIES_MAX)];
      await connection.run("noteForgery", [root.epoch, root.forgeries], args);
    },

    async forgeries() {
      const args = [context.now(), "", String(FORGERIES_MAX)];
      const reply = asList(await connection.run("forgeries", [root.epoch, root.forgeries], args));
      return reply.map((entry) => JSON.parse(asText(entry)) as Forgery); // noteForgery wrote it
    },
  };
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
      throw new TypeError(`no state: ${JSON.stringify(reply)}`);
  }
}

function healthOf(reply: Reply): ResourceHealth {
  const [name, state, syncedGeneration, generation, hole, frozen, needed, watermarks] = asList(reply);
  const resource = CACHED_RESOURCES.find((each: CachedResource) => each === name);
  if (!resource) throw new TypeError(`no resource: ${JSON.stringify(name)}`);
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
  };
}
