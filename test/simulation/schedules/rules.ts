/**
 * Switches the Store's rules off one at a time, in the text of its scripts or around its calls. Without each rule some schedule must fail,
 * otherwise the checks do not cover it. Includes the rules that the protocol's model showed to be necessary, and those about losses.
 */
import type { ScriptName } from "../../../shared/store/redis/scripts/layouts.ts";
import { compareResourceVersions } from "../../../shared/kube/objects/resource-version.ts";
import type { Store } from "../../../shared/store/ports/store.ts";

export interface Breakage {
  readonly rule: string;
  /** A description for the table. */
  readonly off: string;
  /** The first schedule that fails without the rule; absent if none is known. */
  readonly seed?: number;
  readonly script?: { readonly scripts: readonly ScriptName[]; readonly from: string; readonly to: string };
  readonly store?: (store: Store) => Store;
}

const INDEX_SCRIPTS = ["applyPack", "applyManifest", "writeThrough"] as const;
const SEQUENCE_SCRIPTS = ["applyPack", "applyManifest"] as const;

export const BREAKAGES: readonly Breakage[] = [
  {
    rule: "A2",
    off: "messages with an older fence are applied",
    seed: 20,
    script: { scripts: SEQUENCE_SCRIPTS, from: `if current and less(fence, current) then return "fence" end`, to: "" },
  },
  {
    rule: "A3",
    off: "a redelivered message is applied again",
    script: {
      scripts: ["applyPack"],
      from: `  stillDirty()\n  tally(tallyKey, place, came, { duplicate = came })\n  return { "duplicate", bellReplies() }`,
      to: `  mark = ""`,
    },
  },
  {
    rule: "A4",
    off: "an older version replaces a newer one",
    seed: 1,
    script: {
      scripts: INDEX_SCRIPTS,
      from: `elseif row and isCurrent(head(row), rv, listRV) then`,
      to: `elseif row and head(row) == rv then`,
    },
  },
  {
    rule: "A4 quiet",
    off: "a version that is already cached enqueues keys",
    seed: 5,
    script: {
      scripts: ["writeThrough"],
      from: `local changed = string.find(outcomes, "[cla]") ~= nil`,
      to: `local changed = outcomes ~= "" or loweredCount > 0`,
    },
  },
  {
    rule: "A5",
    off: "a late put ignores a newer tombstone",
    seed: 7,
    script: { scripts: INDEX_SCRIPTS, from: `elseif tomb and isCurrent(head(tomb), rv, listRV) then`, to: `elseif false then` },
  },
  {
    rule: "A6",
    off: "a put that is not newer than W creates a row",
    seed: 130,
    script: {
      scripts: INDEX_SCRIPTS,
      from: `elseif not row and not listed and not less(lanes[meta.lane].W, rv) then`,
      to: `elseif false then`,
    },
  },
  {
    rule: "A7 gone",
    off: "a new version of the same object clears the flag `gone`",
    script: {
      scripts: INDEX_SCRIPTS,
      from: `if row and meta.same and not forgedTexts[i] and isGone(row)`,
      to: `if false and isGone(row)`,
    },
  },
  {
    rule: "A9 greatest",
    off: "an older delete replaces a newer tombstone",
    script: { scripts: INDEX_SCRIPTS, from: ` and not (tomb and not less(head(tomb), rv))`, to: "" },
  },
  {
    rule: "A11",
    off: "W advances over a missing message",
    seed: 2,
    script: {
      scripts: SEQUENCE_SCRIPTS,
      from: `    call("ZADD", KEYS[state.base + H]`,
      to: `    if watermark ~= "" and less(state.W, watermark) then call("HSET", KEYS[state.base], "W", watermark) end\n    call("ZADD", KEYS[state.base + H]`,
    },
  },
  {
    rule: "A13",
    off: "W advances in a frozen lane",
    seed: 324,
    script: { scripts: SEQUENCE_SCRIPTS, from: ` and not state.frozen and`, to: ` and` },
  },
  {
    rule: "M in turn",
    off: "a manifest is applied before earlier messages of its lane",
    script: {
      scripts: ["applyManifest"],
      from: `if sequence ~= state.last + 1 then return early(state) end`,
      to: "",
    },
  },
  {
    rule: "M verified",
    off: "a manifest deletes rows and raises W although a listed row is missing",
    seed: 14,
    script: { scripts: ["applyManifest"], from: `if #missing > 0 and not full then -- A13`, to: `missing = {}\nif false then` },
  },
  {
    rule: "L ≥ W",
    off: "a list may be older than the lanes' watermarks",
    store: (store) => ({
      ...store,
      openGeneration: async (request) => {
        const opened = await store.openGeneration(request);
        return opened.kind === "open" ? { ...opened, floor: "0" } : opened;
      },
    }),
  },
  {
    rule: "resume",
    off: "a new leader resumes from the greatest W",
    seed: 119,
    store: (store) => ({
      ...store,
      openFence: async (request) => {
        const opened = await store.openFence(request);
        if (opened.kind !== "open") return opened;
        const greatest = opened.lanes.map(({ watermark }) => watermark).toSorted(compareResourceVersions);
        return { ...opened, lanes: opened.lanes.map((lane) => ({ ...lane, watermark: greatest.at(-1) ?? "0" })) };
      },
    }),
  },
  {
    rule: "counts",
    off: "look-ups are not verified by the object counts of their namespace",
    script: { scripts: INDEX_SCRIPTS, from: `if count ~= seen then return true end`, to: "" },
  },
  {
    rule: "IX3 row",
    off: "a row that has changed since it was read is replaced",
    script: { scripts: INDEX_SCRIPTS, from: `if not healing and not asExpected(i, row) then`, to: `if false then` },
  },
  {
    rule: "IX10",
    off: "an item without a lookup counts as cached if any row exists",
    seed: 1,
    script: {
      scripts: INDEX_SCRIPTS,
      from: `if meta.unread and not asGuessed(i, meta, row, tomb) then return table.concat(outcomes), i - 1 end`,
      to: `if meta.unread and row then row = value end`,
    },
  },
  {
    rule: "write-through",
    off: "responses to own writes are not cached; only watch events are",
    seed: 7,
    store: (store) => ({ ...store, writeThrough: (run, write) => store.writeThrough(run, { ...write, items: [], gone: [] }) }),
  },
  {
    rule: "its effects",
    off: "responses to own writes enqueue no keys",
    store: (store) => ({
      ...store,
      writeThrough: (run, write) => store.writeThrough(run, { ...write, items: write.items.map((item) => ({ ...item, effects: [] })) }),
    }),
  },
  {
    rule: "its drops",
    off: "a response that A5 or A6 drops does not enqueue the run's key",
    script: { scripts: ["writeThrough"], from: `string.find(outcomes, "[cla]")`, to: `string.find(outcomes, "[c]")` },
  },
  {
    rule: "intents",
    off: "no intent is registered before a call",
    seed: 446,
    store: (store) => ({ ...store, registerIntents: (run, ownerUid, _, drawn) => store.registerIntents(run, ownerUid, [], drawn) }),
  },
  {
    rule: "planned",
    off: "the name of an unanswered create is not used again",
    seed: 772,
    store: (store) => ({
      ...store,
      writeThrough: (run, write) =>
        store.writeThrough(run, { ...write, lower: [...write.lower, ...write.plan.map(({ id }) => id)], plan: [] }),
    }),
  },
  {
    rule: "may land",
    off: "the time until which an unanswered create may take effect is not stored",
    script: { scripts: ["writeThrough"], from: `op.mayLand = text(now + MAY_LAND_MS)`, to: `op.mayLand = ""` },
  },
  {
    rule: "RECOVER",
    off: "expired operations of a dead run are discarded",
    seed: 446,
    script: {
      scripts: ["take"],
      from: `  if #expired > 0 then --`,
      to: `  for _, each in ipairs(expired) do lowerOp(intentsKey, each[1], each[2]) end\n  if #expired > 0 then intents = call("HGETALL", intentsKey) end\n  if false then --`,
    },
  },
  {
    rule: "deadline",
    off: "operations of a dead run are looked up while their calls may still take effect",
    script: { scripts: ["take"], from: `if op.deadline <= now then`, to: `if true then` },
  },
  {
    rule: "re-stamp",
    off: "a write-through does not extend the deadlines of the run's operations",
    script: {
      scripts: ["writeThrough"],
      from: `setPending(intentsKey, token, count, now + OP_DEADLINE_MS)`,
      to: `setPending(intents, token, count, deadline)`,
    },
  },
  {
    rule: "uid of intents",
    off: "operations are registered for a primary that has been replaced",
    script: { scripts: ["registerIntents"], from: ` or not uidIs(call("HGET", KEYS[queueBase + U], key), ownerUid)`, to: "" },
  },
  {
    rule: "IT4",
    off: "intents remain after their owner is deleted",
    seed: 161,
    script: { scripts: INDEX_SCRIPTS, from: `if meta.i > 0 then`, to: `if false then` },
  },
  {
    rule: "BUSY",
    off: "`take` returns a key that another run holds",
    seed: 3_477,
    script: { scripts: ["take"], from: `if held and held ~= token and not isOver then return { "busy" } end`, to: "" },
  },
  {
    rule: "STOLEN",
    off: "a run whose key was taken over can register intents",
    script: { scripts: ["registerIntents"], from: `holder(queueBase, key) ~= token or `, to: "" },
  },
  {
    rule: "MOVED",
    off: "a snapshot is read by an outdated uid of the caller",
    seed: 20,
    script: { scripts: ["take"], from: `if u ~= known then`, to: `if false then` },
  },
  {
    rule: "WQ1 during",
    off: "an add during a run has no effect after the run ends",
    seed: 85,
    script: {
      scripts: ["done", "writeThrough"],
      from: `local state, failures, held = keyState(base, key), 0, holder(base, key)`,
      to: `call("ZREM", KEYS[base], key)\nlocal state, failures, held = keyState(base, key), 0, holder(base, key)`,
    },
  },
  {
    rule: "WQ8 token",
    off: "a write-through ends a run that is not the caller's",
    script: { scripts: ["writeThrough"], from: `if held ~= token then return {} end`, to: "" },
  },
  { rule: "sweeper", off: "lost doorbells are not sent again", seed: 3, store: (store) => ({ ...store, sweep: async () => [] }) },
  {
    rule: "gate",
    off: "`take` returns keys while the gate is closed",
    script: { scripts: ["take"], from: `local reason = closed(nil)`, to: `local reason = nil` },
  },
  {
    rule: "SL1 beat",
    off: "an outdated checkpoint does not reveal a rollback of the Store",
    script: { scripts: ["checkpoint"], from: `if held < answered then`, to: `if false then` },
  },
  {
    rule: "SL1 runs",
    off: "runs that began before a loss of data continue",
    script: { scripts: ["checkpoint"], from: `for at = queuesAt, queuesEnd do`, to: `for at = 1, 0 do` },
  },
];
