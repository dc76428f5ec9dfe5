/** Intents and write-through (informer §13). */
import { ownerIdIn } from "@deltaloop/kube/objects";
import { markText, RECORD_FIELD } from "../decision-mark.ts";
import { laneOf } from "../lane.ts";
import type { Intent, IntentStore, AnyTaken, WriteThrough, WriteThroughResult } from "../ports/store.ts";
import { changeArgs, outcomeArgs, parseBells, parseDone, parseOutcomes } from "./changes.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Context } from "./context.ts";
import { sliceName } from "./keys.ts";
import { recordText, US } from "./rows.ts";
import { shortened } from "./short-texts.ts";

/** Prefix of a field that does not hold an op, but the number and deadline of a token's pending ops. */
const TOKEN_FIELD = "t:";
/** Attempts of `writeThrough` while the pods to flag as gone are in other slices than assumed. */
const SLICE_ROUNDS_MAX = 8;

/** Items of one `writeThrough`: a slow-start batch. */
const ITEMS_MAX = 500;

export function createIntentStore(context: Context): IntentStore {
  return {
    async registerIntents(run, ownerUid, intents, drawn) {
      const names = context.names.of(run.epoch);
      const intentsKey = names.intents(ownerIdIn(context.catalog, run.controller, run.key, ownerUid));
      const ops = intents.map(({ id, verb, name, uid = "", mayLandUntilMs = "" }) => ({ id, verb, name, uid, mayLandUntilMs }));
      const { key, token, controller } = run;
      const table = context.keys("registerIntents", { queue: names.queue(controller), intents: intentsKey });
      const marks = String(run.lineage?.marks ?? 0);
      const args = {
        key,
        token,
        ownerUid: shortened(context.catalog, controller, ownerUid),
        controller,
        ...termArgs(run),
        marks,
        drawn: String(drawn ?? ""),
        ops,
      };
      const registered = (await context.run(table.call(run.epoch, args))) === 1;
      if (registered && intents.length > 0) await context.durable(); // waits, because a failover would otherwise repeat the calls
      return registered ? "ok" : "stolen";
    },

    async writeThrough(run, write) {
      let owners: readonly string[] = [];
      for (let round = 0; round < SLICE_ROUNDS_MAX; round++) {
        const answer = await writeThrough(context, run, write, owners);
        if (answer.kind !== "slices") return answer;
        owners = [...owners, ...answer.owners];
      }
      throw new Error(`gave up writing ${run.key} through after ${SLICE_ROUNDS_MAX} attempts: its pods kept changing owners`);
    },
  };
}

async function writeThrough(
  context: Context,
  run: AnyTaken,
  write: WriteThrough,
  owners: readonly string[],
): Promise<WriteThroughResult | { readonly kind: "slices"; readonly owners: readonly string[] }> {
  const names = context.names.of(run.epoch);
  const { resource, lower, plan, hold = [], gone } = write;
  const owner = ownerIdIn(context.catalog, run.controller, run.key, write.ownerUid);
  const { reply: answer, keys } = await context.runByLanes(() => {
    const table = context.keys("writeThrough", {
      queue: names.queue(run.controller),
      intents: names.intents(owner),
      meta: names.meta(resource),
      limiter: context.names.limiter(run.controller),
    });
    const lanes = context.lanes(resource);
    const slices = gone.length === 0 ? [] : goneSlices(write, [owner, ...owners]);
    return table.call(run.epoch, {
      key: run.key,
      token: run.token,
      resource,
      ...termArgs(run),
      ownStatus: write.ownStatus,
      laneCount: String(lanes),
      ...(write.ends ? outcomeArgs(write.ends) : { outcome: "", delayMs: undefined }),
      lowered: lower.map((op) => ({ op })),
      planned: [...plan.map(({ id, mayLand }) => ({ op: id, state: mayLand ? "1" : "0" })), ...hold.map((op) => ({ op, state: "h" }))],
      gone: gone.map(({ key, uid }) => ({
        key,
        uid: shortened(context.catalog, resource, uid),
        laneBase: table.block(names.lane(resource, laneOf(key, lanes))),
      })),
      slices: slices.map((slice) => ({ owner: slice, slot: table.slot(names.slice(resource, slice)) })),
      left: write.left,
      marks: (write.marks ?? []).map(({ controller, key, uid, mark }) => ({
        queueBase: table.block(names.queue(controller)),
        key,
        uid: shortened(context.catalog, controller, uid),
        intentsSlot: table.slot(names.intents(ownerIdIn(context.catalog, controller, key, uid))),
        text: markText(mark),
      })),
      records: (write.records ?? []).map(({ id, record }) => ({
        uid: shortened(context.catalog, run.controller, write.ownerUid),
        field: RECORD_FIELD + id,
        text: record === undefined ? "" : recordText(context.seal(run.epoch), owner, id, record),
      })),
      ...changeArgs(names, table, {
        catalog: context.catalog,
        seal: context.seal(run.epoch),
        resource,
        laneOf: (key) => laneOf(key, lanes),
        items: write.items,
        counts: write.counts,
        itemsMax: ITEMS_MAX,
      }),
    });
  });
  const reply = asList(answer);
  switch (reply[0]) {
    case "otherEpoch":
      return { kind: "otherEpoch" };
    case "slices":
      return { kind: "slices", owners: reply.slice(1).map(asText) };
    case "applied":
      return {
        kind: "ok",
        bells: parseBells(context.catalog, names, keys, reply[1]),
        outcomes: parseOutcomes(reply[2]),
        ...(write.ends && { done: parseDone(context.catalog, names, keys, reply[3]) }),
      };
    case "retry":
      return {
        kind: "retry",
        index: asNumber(reply[3]),
        bells: parseBells(context.catalog, names, keys, reply[1]),
        outcomes: parseOutcomes(reply[2]),
      };
    default:
      throw new TypeError(`unexpected reply of writeThrough: ${JSON.stringify(reply[0])}`);
  }
}

/** The arguments that LN4 compares. */
function termArgs({ lineage }: AnyTaken): { readonly term: string; readonly termFence: string } {
  return { term: lineage?.token?.term ?? "", termFence: lineage?.token ? lineage.fence : "" };
}

/** The slices of gone pods: nearly always the owner's slice, otherwise that of the orphans or the slice in which the script found them. */
function goneSlices(write: WriteThrough, owners: readonly string[]): readonly string[] {
  const of = (key: string): string => key.slice(0, key.indexOf("/"));
  return [
    ...new Set([
      ...write.gone.map(({ key }) => sliceName(undefined, of(key))),
      ...write.items.flatMap((item) => [sliceName(item.owner, of(item.key)), sliceName(item.expected?.owner, of(item.key))]),
      ...owners,
    ]),
  ];
}

/** The fields of an intents hash in the order of their ids. A pending op's deadline is the later of its own and its token's. */
export function parseIntents(pairs: readonly (readonly [id: string, value: string])[]): readonly Intent[] {
  const deadlines = new Map(
    pairs.flatMap(([id, value]) =>
      id.startsWith(TOKEN_FIELD) ? [[id.slice(TOKEN_FIELD.length), Number(value.split(US)[1])] as const] : [],
    ),
  );
  return pairs
    .filter(([id]) => !id.startsWith(TOKEN_FIELD))
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([id, value]) => {
      const [state, token = "", , , verb, name = "", uid = "", deadline, mayLand = ""] = value.split(US);
      const pending = state === "p";
      return {
        id,
        verb: verb === "delete" ? "delete" : "create",
        name,
        ...(uid !== "" && { uid }),
        state: pending ? "pending" : "planned",
        token,
        deadlineMs: Math.max(Number(deadline), pending ? (deadlines.get(token) ?? 0) : 0),
        ...(mayLand !== "" && { mayLandUntilMs: Number(mayLand) }),
      };
    });
}
