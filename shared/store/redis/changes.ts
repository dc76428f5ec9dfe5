/** Items of a call as KEYS and ARGV (scripts/lib/index.lua). */
import { controllerIn, infoIn, isResourceVersion, listsPrimaries, ownedSlices, ownerIdIn } from "@deltaloop/kube/objects";
import type { Catalog, OwnerId, View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "../ports/doorbells.ts";
import type { DoneResult, Effect, ItemChange, ItemOutcome, NamespaceCount, Outcome } from "../ports/store.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import type { EpochKeys, KeyTable } from "./keys.ts";
import type { ArgsOf, ChangeArgs } from "./scripts/layouts.ts";
import { entryText, expectedText, rowText, tombstoneText, US } from "./rows.ts";
import type { Seal } from "./rows.ts";
import { restored, shortened } from "./short-texts.ts";
import type { Short } from "./short-texts.ts";

export interface Changes {
  readonly catalog: Catalog;
  readonly seal: Seal;
  /** Limit of items per call, because a script blocks the server. */
  readonly itemsMax?: number;
  readonly resource: View;
  readonly laneOf: (key: ObjectKey) => number;
  readonly items: readonly ItemChange[];
  readonly counts: readonly NamespaceCount[];
}

/** Flags in the `meta` argument of an item. */
const SAME_UID = 1;
const COUNTED = 2;
const UNREAD = 4;
const OUTSIDE = 8;

/** Location of a forged text. */
const WHERE = { row: "v", entry: "s", tombstone: "t" } as const;

/** An item's kind in its `meta` argument. */
const KINDS = { put: "P", delete: "D", gone: "G" } as const;

/**
 * The arguments of `changes`; their keys are added to `table`.
 * @throws {RangeError} if a resourceVersion is not a decimal integer, a key occurs twice or there are too many items: this is a bug of the
 * caller, and the command is not sent
 */
export function changeArgs(names: EpochKeys, table: KeyTable, changes: Changes): ChangeArgs {
  const { catalog, seal, resource, items, counts } = changes;
  const { itemsMax = Number.POSITIVE_INFINITY } = changes;
  if (items.length > itemsMax) throw new RangeError(`the call has ${items.length} items, more than ${itemsMax}`);
  const controller = controllerIn(catalog, resource);
  const isListed = controller !== undefined && listsPrimaries(catalog, controller);
  const effects = new EffectTable(catalog, names, table);
  const sliceSlot = remember((owner: string) => table.slot(names.slice(resource, owner)));
  const intentSlot = remember((owner: OwnerId) => table.slot(names.intents(owner)));
  const laneBase = remember((lane: number) => table.block(names.lane(resource, lane)));
  const records: ChangeArgs["items"][number][] = [];
  const lowers: ChangeArgs["lowers"][number][] = [];
  const seen = new Set<string>();
  let lowersAny = false;
  for (const item of items) {
    const { key, uid, rv, owner, expected } = item;
    if (!isResourceVersion(rv)) throw new RangeError(`not a resourceVersion: "${rv}" of ${resource} ${key}`);
    if (seen.has(key)) throw new RangeError(`${resource} ${key} occurs twice in one call`);
    seen.add(key);
    const put = item.type === "put";
    const slash = key.indexOf("/");
    const orphans = `-${key.slice(0, slash)}`;
    const sameOwner = put && expected?.uid === uid && expected.owner === owner;
    const flags =
      (expected?.uid === uid ? SAME_UID : 0) + (item.counted ? COUNTED : 0) + (item.unread ? UNREAD : 0) + (item.isOutside ? OUTSIDE : 0);
    const lane = laneBase(changes.laneOf(key));
    const newSlice = put ? sliceSlot(owner ?? orphans) : 0;
    const oldSlice = !expected
      ? item.unread && !put
        ? sliceSlot(owner ?? orphans)
        : 0
      : sameOwner
        ? newSlice
        : sliceSlot(expected.owner ?? orphans);
    const primaries = isListed ? table.slot(names.primaries(resource, key.slice(0, slash))) : 0;
    const owned = item.isOutside && controller && !expected ? ownedSlices(catalog, controller, key, uid) : [];
    const endsIntents =
      controller && expected && item.type !== "gone" && (!put || expected.uid !== uid)
        ? table.slot(names.intents(ownerIdIn(catalog, controller, key, expected.uid)))
        : 0;
    let lowersCreate = 0;
    lowersAny ||= item.lowers.length > 0;
    for (const { owner: lowered, op } of item.lowers) {
      const slot = intentSlot(lowered);
      if (lowersCreate === 0 && op.startsWith("c:") && op.endsWith(key.slice(slash + 1)) && op.length === key.length - slash + 1)
        lowersCreate = slot;
      else lowers.push({ item: seen.size, intentsSlot: slot, op });
    }
    records.push({
      key,
      value: put
        ? rowText(seal, resource, item)
        : item.type === "delete"
          ? tombstoneText(seal, resource, item)
          : `${rv}${US}${shortened(catalog, resource, uid)}`,
      entry: put && !(item.unread && expected) ? entryText(seal, resource, item) : "",
      expected: expected ? (sameOwner ? expected.rv : expectedText(catalog, resource, expected)) : "",
      meta: `${KINDS[item.type]},${lane},${newSlice},${oldSlice},${flags},${primaries},${endsIntents},${lowersCreate},${effects.indexes(item.effects)};${owned.map(({ view, slice }) => table.slot(names.slice(view, slice))).join(",")}`,
    });
  }
  const forged = items.flatMap((item, i) =>
    (item.forged ?? []).map(({ where, slice, text }) => ({
      item: i + 1,
      where: WHERE[where],
      sliceSlot: slice === undefined ? 0 : table.slot(names.slice(resource, slice)),
      text,
    })),
  );
  const lowering = catalog.controllers.filter((each) => lowersAny && infoIn(catalog, each).dependents === resource);
  return {
    ownBase: controller ? table.block(names.queue(controller)) : 0,
    ownCountsSlot: controller ? table.slot(names.counts(resource)) : 0,
    loweredQueues: lowering.map((each) => `${each}:${table.block(names.queue(each))}`).join(","),
    items: records,
    effects: effects.args,
    lowers,
    counts: counts.map((each) => ({ countsSlot: table.slot(names.counts(each.resource)), namespace: each.namespace, count: each.count })),
    forged,
  };
}

/** Memoizes the results of `make`. */
function remember<K>(make: (name: K) => number): (name: K) => number {
  const made = new Map<K, number>();
  return (name) => {
    let slot = made.get(name);
    if (slot === undefined) {
      slot = make(name);
      made.set(name, slot);
    }
    return slot;
  };
}

/** The distinct effects of a call; items refer to them by number, because most items of a pack affect the same few keys. */
class EffectTable {
  readonly args: ChangeArgs["effects"][number][] = [];
  readonly #catalog: Catalog;
  readonly #names: EpochKeys;
  readonly #table: KeyTable;
  readonly #byKey = new Map<ObjectKey, { readonly effect: Effect; readonly index: number }[]>();

  constructor(catalog: Catalog, names: EpochKeys, table: KeyTable) {
    this.#catalog = catalog;
    this.#names = names;
    this.#table = table;
  }

  indexes(effects: readonly Effect[]): string {
    if (effects.length === 1 && effects[0]) return String(this.#index(effects[0]));
    return effects.map((effect) => this.#index(effect)).join(",");
  }

  #index(effect: Effect): number {
    let known = this.#byKey.get(effect.key);
    if (!known) {
      known = [];
      this.#byKey.set(effect.key, known);
    }
    for (const each of known) if (isSame(each.effect, effect)) return each.index;
    const { controller, key, uid, urgency } = effect;
    const base = this.#table.block(this.#names.queue(controller));
    const { dependents } = infoIn(this.#catalog, controller);
    const slice =
      urgency === "status" && dependents !== undefined
        ? this.#table.slot(this.#names.slice(dependents, ownerIdIn(this.#catalog, controller, key, uid)))
        : 0;
    const meta = `${base},${urgency === "act" ? "a" : "s"},${effect.self ? 1 : 0},${slice},${shortened(this.#catalog, controller, uid)}`;
    const index = this.args.push({ meta, key: effect.key });
    known.push({ effect, index });
    return index;
  }
}

/** Whether two effects on one key are equal. */
function isSame(a: Effect, b: Effect): boolean {
  return a.controller === b.controller && a.uid === b.uid && a.urgency === b.urgency && Boolean(a.self) === Boolean(b.self);
}

const OUTCOMES: Readonly<Record<string, ItemOutcome>> = { c: "changed", s: "same", l: "late", a: "absent", f: "full" };

/** Decodes outcomes, which have one letter per item. */
export function parseOutcomes(reply: Reply | undefined): readonly ItemOutcome[] {
  const letters = asText(reply);
  const outcomes: ItemOutcome[] = [];
  for (let i = 0; i < letters.length; i++) {
    const outcome = OUTCOMES[letters.charAt(i)];
    if (!outcome) throw new TypeError(`unknown outcome: ${letters}`);
    outcomes.push(outcome);
  }
  return outcomes;
}

/** Decodes `{ base, key, u, delay, … }`; `names` and `table` resolve a base to its queue. */
export function parseBells(catalog: Catalog, names: EpochKeys, keys: readonly string[], reply: Reply | undefined): readonly Doorbell[] {
  const flat = asList(reply);
  const bells: Doorbell[] = [];
  for (let i = 0; i < flat.length; i += 4) {
    const first = keys[asNumber(flat[i]) - 1];
    const controller = catalog.controllers.find((each) => names.queue(each)[0] === first);
    if (!controller) throw new TypeError(`unknown queue: ${first}`);
    bells.push(bell(catalog, names, controller, asText(flat[i + 1]), asText(flat[i + 2]), asNumber(flat[i + 3])));
  }
  return bells;
}

function bell(short: Short, names: EpochKeys, controller: ControllerName, key: string, u: string, delayMs: number): Doorbell {
  return { controller, key, ...parsePrimary(short, u), epoch: names.epoch, delayMs };
}

/** Decodes the stored identity of a primary: uid 0x1F its controller owner; empty if there is no primary. */
export function parsePrimary(short: Short, u: string): { readonly uid?: string; readonly owner?: OwnerId } {
  if (u === "") return {};
  const [uid = "", owner = ""] = u.split(US);
  return { uid: restored(short, uid), ...(owner !== "" && { owner }) };
}

/** Encodes the outcome of a run. */
export function outcomeArgs(outcome: Outcome): Pick<ArgsOf<"done">, "outcome" | "delayMs"> {
  const delayMs = outcome.kind === "requeueAfter" ? outcome.delayMs : outcome.kind === "retry" ? outcome.withinMs : undefined;
  return { outcome: outcome.kind, delayMs: delayMs === undefined ? undefined : Math.ceil(delayMs) };
}

export function parseDone(catalog: Catalog, names: EpochKeys, keys: readonly string[], answer: Reply | undefined): DoneResult {
  const [ended, bells] = asList(answer);
  if (ended === undefined) return { kind: "stolen" };
  const [bell] = bells === undefined ? [] : parseBells(catalog, names, keys, bells);
  return { ...(ended === "ended" ? { kind: ended } : { kind: "done", failures: asNumber(ended) }), ...(bell && { bell }) };
}
