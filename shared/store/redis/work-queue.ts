/** The work queue (informer §12). */
import { DRAWN_FIELD, LEFT_FIELD, MARK_FIELD, parseDrawn, parseMark } from "../decision-mark.ts";
import { laneOf } from "../lane.ts";
import { compareResourceVersions, infoIn, ownerIdIn, slicesIn, splitKey } from "@deltaloop/kube/objects";
import type { OwnerId, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "../ports/doorbells.ts";
import type { Forged, Intent, Outcome, ParkedKey, Row, Snapshot, AnyTaken, TakeResult, WorkQueue } from "../ports/store.ts";
import { LEASE_MS } from "@deltaloop/base";
import { outcomeArgs, parseBells, parseDone, parsePrimary } from "./changes.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { gateArgs, readerArgs } from "./context.ts";
import type { Context } from "./context.ts";
import { takenLineageOf } from "./epoch-store.ts";
import { openStop } from "./stop-store.ts";
import { parseIntents } from "./intent-store.ts";
import { NO_SLICE, sliceName } from "./keys.ts";
import type { Call, EpochKeys } from "./keys.ts";
import { expectedText, openPlaced, openRecords, openSlice, US } from "./rows.ts";
import { shortened } from "./short-texts.ts";

export function createWorkQueue(context: Context): WorkQueue {
  const runKeys = ({ epoch, controller }: AnyTaken): { readonly queue: readonly string[] } => ({
    queue: context.names.of(epoch).queue(controller),
  });
  const doneCall = (run: AnyTaken, outcome: Outcome): Call =>
    context
      .keys("done", { ...runKeys(run), limiter: context.names.limiter(run.controller) })
      .call(run.epoch, { key: run.key, token: run.token, ...outcomeArgs(outcome) });
  return {
    async add(epoch, controller, key, delayMs) {
      const names = context.names.of(epoch);
      const call = context.keys("add", { queue: names.queue(controller) }).call(epoch, { key, delayMs: Math.ceil(delayMs) });
      return parseBells(context.catalog, names, call.keys, await context.run(call))[0];
    },

    async take(run, known) {
      try {
        return await take(context, run, known);
      } catch (error) {
        // A slow server may still execute this take, and nothing would use its lease. A second call then releases the lease.
        context.run(doneCall(run, { kind: "requeueAfter", delayMs: 0 })).catch(() => undefined); // if this call also fails, the lease expires
        throw error;
      }
    },

    async renew(run) {
      const { key, token } = run;
      const table = context.keys("renew", { ...runKeys(run), stop: context.names.stop });
      const call = table.call(run.epoch, { key, token, heedsStop: !context.options.ignoresStop });
      const untilMs = asNumber(await context.run(call));
      return untilMs < 0 ? "stopped" : untilMs || undefined;
    },

    async done(run, outcome) {
      const call = doneCall(run, outcome);
      return parseDone(context.catalog, context.names.of(run.epoch), call.keys, await context.run(call));
    },

    async resync(epoch, controller, spreadMs) {
      const names = context.names.of(epoch);
      const call = context.keys("resync", { queue: names.queue(controller) }).call(epoch, { spreadMs: Math.ceil(spreadMs) });
      return parseBells(context.catalog, names, call.keys, await context.run(call));
    },

    async dueIn(epoch) {
      const names = context.names.of(epoch);
      const table = context.keys("dueIn", {});
      const call = table.call(epoch, readerArgs(context, names, table, context.catalog.controllers));
      const ms = asNumber(await context.run(call));
      return ms < 0 ? undefined : ms;
    },

    async sweep(epoch) {
      const names = context.names.of(epoch);
      const resources = [...new Set(context.catalog.controllers.flatMap((controller) => infoIn(context.catalog, controller).reads))];
      const { reply, keys } = await context.runByLanes(() => {
        const table = context.keys("sweep", {});
        return table.call(epoch, {
          ...gateArgs(context, names, table, resources),
          ...readerArgs(context, names, table, context.catalog.controllers),
        });
      });
      return parseBells(context.catalog, names, keys, asList(reply)[1]);
    },

    async queued(controller) {
      const answer = await context.runInCurrentEpoch((names) =>
        context.keys("queued", { queue: names.queue(controller) }).call(names.epoch, {}),
      );
      return answer ? queuedKeys(answer.reply) : [];
    },

    async parked(controller) {
      const answer = await context.runInCurrentEpoch((names) =>
        context.keys("parked", { queue: names.queue(controller) }).call(names.epoch, {}),
      );
      return answer ? parkedKeys(asPairs(answer.reply.slice(1))) : [];
    },
  };
}

async function take(context: Context, run: AnyTaken, known: { readonly uid?: string; readonly owner?: OwnerId }): Promise<TakeResult> {
  const names = context.names.of(run.epoch);
  const { primary: resource, dependents, slices: further, reads } = infoIn(context.catalog, run.controller);
  const seal = context.seal(run.epoch);
  const { namespace } = splitKey(run.key);
  const owner = known.uid === undefined ? undefined : ownerIdIn(context.catalog, run.controller, run.key, known.uid);
  const more = known.uid === undefined ? [] : slicesIn(context.catalog, run.controller, run.key, known.uid);
  const { reply: answer } = await context.runByLanes(() => {
    const table = context.keys("take", {
      queue: names.queue(run.controller),
      primarySlice: names.slice(resource, sliceName(known.owner, namespace)),
      dependents: names.slice(dependents ?? resource, dependents === undefined ? NO_SLICE : (owner ?? "-")),
      orphans: names.slice(dependents ?? resource, dependents === undefined ? NO_SLICE : sliceName(undefined, namespace)),
      intents: names.intents(owner ?? "-"),
      primaryRows: names.lane(resource, laneOf(run.key, context.lanes(resource)))[1],
      counts: names.counts(resource),
    });
    return table.call(run.epoch, {
      key: run.key,
      token: run.token,
      known:
        known.uid === undefined && known.owner === undefined
          ? ""
          : `${shortened(context.catalog, run.controller, known.uid ?? "")}${US}${known.owner ?? ""}`,
      ...gateArgs(context, names, table, reads),
      more: more.map(({ view, slice }) => ({ slot: table.slot(names.slice(view, slice)) })),
    });
  });
  const reply = asList(answer);
  switch (reply[0]) {
    case "otherEpoch":
    case "busy":
    case "empty":
      return { kind: reply[0] };
    case "stopped":
      return { kind: "stopped", stop: openStop(context, asText(reply[1]), asText(reply[2])) };
    case "gated":
      return { kind: "gated", reason: asText(reply[1]) };
    case "notYet": {
      const bell = bellOf(context, names, run.controller, reply[1]);
      return { kind: "notYet", delayMs: bell.delayMs, bell };
    }
    case "moved":
      return { kind: "moved", ...parsePrimary(context.catalog, asText(reply[1])) };
    case "ok": {
      const place = { resource: dependents ?? resource, nowMs: asNumber(reply[1]) - LEASE_MS };
      const own = openSlice(seal, { ...place, owner, slice: owner ?? "" }, asPairs(reply[4]));
      const orphans = openSlice(seal, { ...place, owner: undefined, slice: sliceName(undefined, namespace) }, asPairs(reply[5]));
      const { primary, forged } = primaryOf(context, run, known, { entry: reply[3], row: reply[7] });
      const fields = asPairs(reply[6]);
      const slices = more.map(({ view, slice }, i) =>
        openSlice(seal, { ...place, resource: view, owner: slice, slice }, asPairs(asList(reply[16])[i])),
      );
      const unbelieved = [...forged, ...own.forged, ...orphans.forged, ...slices.flatMap((opened) => opened.forged)];
      const snapshot: Snapshot = {
        ...(primary && { primary }),
        dependents: own.rows,
        orphans: orphans.rows,
        intents: parseIntents(fields),
        ...(further && {
          slices: new Map(more.map(({ view }, i) => [view, slices[i]?.rows ?? []])),
          records: openRecords(seal, owner ?? "", fields),
        }),
        failures: asNumber(reply[2]),
        ...unendedOf(reply[8]),
        ...basisOf(new Map(fields), place.nowMs, reply.slice(9, 14)),
        ...(unbelieved.length > 0 && { forged: unbelieved }),
      };
      const [lineage, release] = [takenLineageOf(reply[14], context), asText(reply[15])];
      return { kind: "ok", snapshot, leaseUntilMs: asNumber(reply[1]), lineage, ...(release !== "" && { release }) };
    }
    case "recover": {
      const intents: readonly Intent[] = parseIntents(asPairs(reply[4]));
      const { primary, forged } = primaryOf(context, run, known, { entry: reply[3], row: reply[5] });
      const snapshot: Snapshot = {
        ...(primary && { primary }),
        ...(forged.length > 0 && { forged }),
        dependents: [],
        orphans: [],
        intents,
        failures: asNumber(reply[2]),
        ...unendedOf(reply[6]),
      };
      return { kind: "recover", snapshot, leaseUntilMs: asNumber(reply[1]), lineage: takenLineageOf(reply[7], context) };
    }
    default:
      throw new TypeError(`unexpected reply of take: ${JSON.stringify(reply[0])}`);
  }
}

/** The state on which the run's creates and deletes are based. */
function basisOf(
  intents: ReadonlyMap<string, string>,
  atMs: number,
  [fence, suspects, relisted, watermark, predecessor]: readonly (Reply | undefined)[],
): Pick<Snapshot, "pods" | "mark" | "left" | "drawn" | "predecessorGone"> {
  if (fence === undefined) return {};
  const mark = parseMark(intents.get(MARK_FIELD));
  const left = Number(intents.get(LEFT_FIELD) ?? 0);
  const drawn = parseDrawn(intents.get(DRAWN_FIELD));
  const relistedMs = asText(relisted);
  const pods = {
    fence: asText(fence),
    suspects: asNumber(suspects),
    watermark: asText(watermark),
    atMs,
    ...(relistedMs !== "" && { relistedMs: Number(relistedMs) }),
  };
  const predecessorGone = asText(predecessor);
  return {
    ...(pods.fence !== "" && { pods }),
    ...(mark && { mark }),
    ...(left > 0 && { left }),
    ...(drawn !== undefined && { drawn }),
    ...(predecessorGone !== "" && compareResourceVersions(predecessorGone, pods.watermark) > 0 && { predecessorGone }),
  };
}

function unendedOf(reply: Reply | undefined): Pick<Snapshot, "unended"> {
  const unended = asNumber(reply);
  return unended > 0 ? { unended } : {};
}

/**
 * Returns the primary's row, or the forged values. If the work queue knows the primary but its slice has no entry, the entry was lost: it
 * is treated like a forged one (A14), not as a delete. The same applies to an entry that differs from the row or the work queue, because
 * another client has changed one of them.
 */
function primaryOf(
  context: Context,
  run: AnyTaken,
  { uid, owner }: { readonly uid?: string; readonly owner?: OwnerId },
  { entry, row }: { readonly entry: Reply | undefined; readonly row: Reply | undefined },
): { readonly primary?: Row; readonly forged: readonly Forged[] } {
  if (uid === undefined) return { forged: [] };
  const resource = infoIn(context.catalog, run.controller).primary;
  const slice = sliceName(owner, splitKey(run.key).namespace);
  const text = typeof entry === "string" ? entry : "";
  const primary = text === "" ? undefined : openPlaced(context.seal(run.epoch), { resource, owner, slice }, run.key, text);
  const isTheirs = primary?.uid === uid && typeof row === "string" && row.startsWith(expectedText(context.catalog, resource, primary));
  return primary && isTheirs ? { primary, forged: [] } : { forged: [{ resource, key: run.key, where: "entry", slice, text }] };
}

function bellOf({ catalog }: Context, names: EpochKeys, controller: ControllerName, reply: Reply | undefined): Doorbell {
  const [, key, u, delayMs] = asList(reply);
  return { controller, key: asText(key), ...parsePrimary(catalog, asText(u)), epoch: names.epoch, delayMs: asNumber(delayMs) };
}

interface QueuedKey {
  readonly key: ObjectKey;
  readonly readyAtMs?: number;
  readonly leaseUntilMs?: number;
  readonly failures: number;
}

function queuedKeys(reply: readonly Reply[]): readonly QueuedKey[] {
  const ready = new Map(asPairs(reply[1]));
  const runs = new Map(asPairs(reply[2]));
  const failures = new Map(asPairs(reply[3]));
  return [...new Set([...ready.keys(), ...runs.keys()])].toSorted().map((key) => {
    const readyAt = ready.get(key);
    const run = runs.get(key);
    return {
      key,
      ...(readyAt !== undefined && { readyAtMs: Number(readyAt) }),
      ...(run !== undefined && { leaseUntilMs: Number(run.split(US)[1]) }),
      failures: Number(failures.get(key) ?? 0),
    };
  });
}

function parkedKeys(pairs: readonly (readonly [key: ObjectKey, ended: string])[]): readonly ParkedKey[] {
  return pairs
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, ended]) => {
      const [since, failures] = ended.split(US);
      return { key, sinceMs: Number(since), failures: Number(failures) };
    });
}
