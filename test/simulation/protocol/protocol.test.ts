// Would catch: a rule of the cache or the work queue that fails only for some order of messages, calls, crashes, and losses of the Store.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { shareOf } from "../../support/share.ts";
import { RULES } from "../rules.ts";
import type { Rule } from "../rules.ts";
import { parseScheduleName, scheduleNameOf } from "../schedules/variant.ts";
import { describeUnreached, hunt } from "./hunt.ts";
import type { HuntOptions } from "./hunt.ts";
import { printSchedule } from "./print-hunt.ts";
import { describeFailure, runProtocol } from "./run-protocol.ts";
import { shrink } from "./shrink.ts";

const FIXED = 120;
/** Number of new seeds per test in each run. */
const FRESH_PER_TEST = 500;
const FRESH = shareOf(
  Array.from({ length: 10 }, (_, i) => 10_000_000 + (Math.floor(Date.now() / 1000) % 1_000_000) * 5_000 + i * FRESH_PER_TEST),
  1,
);
/** The first seed that fails without the rule; `npm run sim -- --protocol --rules` prints all of them. */
const PLANTED: readonly (readonly [Rule, number])[] = [
  ["A1", 196],
  ["A2", 4],
  ["A3", 35],
  ["A4", 1],
  ["A5", 9],
  ["A6", 64],
  ["A8", 1],
  ["A9", 483],
  ["A11", 2],
  ["A13", 38],
  ["A15", 902_931],
  ["manifestOrder", 2],
  ["manifestParts", 14],
  ["sweep", 1],
  ["generation", 14],
  ["suspect", 39_999],
  ["needed", 38],
  ["hole", 2],
  ["unread", 1],
  ["resume", 119],
  ["intents", 446],
  ["names", 1209],
  ["planned", 772],
  ["recover", 446],
  ["settled", 425],
  ["ownerOfIntents", 334],
  ["uidOfIntents", 38],
  ["stolen", 38],
  ["effects", 3_091],
  ["addDuring", 21],
  ["retry", 525],
  ["requeue", 21],
  ["abandoned", 1],
  ["backoff", 5],
  ["writeThrough", 7],
  ["lease", 130],
  ["sweeper", 4],
];
/**
 * Rules that can be disabled without a failure in the seeds up to 10,000, with the reason, and the title of a direct test that fails
 * without the rule. `beside`: no seed fails if these rules are disabled, too.
 */
const UNSEEN: readonly { readonly rule: Rule; readonly beside?: readonly Rule[]; readonly why: string; readonly direct: string }[] = [
  {
    rule: "A7",
    beside: ["flag"],
    why: "a worker that counts a deleted pod deletes the same pod again, which has no effect",
    direct: "keeps the flag `gone` of a row while its uid is the same",
  },
  { rule: "flag", why: "as A7; the pod's event follows", direct: "is not applied if the row is flagged `gone` or the key has a tombstone" },
  {
    rule: "floor",
    why: "a watcher requests no version older than it has read; only the first list of a term may be older",
    direct: "a new list must reach the greatest watermark of its lanes",
  },
  {
    rule: "fence",
    why: "leaders open fences one after another",
    direct: "opens a greater fence, and opening the same fence again has no effect",
  },
  {
    rule: "expected",
    why: "labels never change, so the later change enqueues the keys that the row's change between read and call affects",
    direct: "IX8 stops at a row that changed after it was read",
  },
  {
    rule: "counts",
    why: "a failure needs a new ReplicaSet that is delivered, enqueued and synced between the read and the call of one pod's applier",
    direct: "rejects an orphan with a retry if a matching ReplicaSet was created after the look-up",
  },
  {
    rule: "mayLand",
    why: "the names of unanswered creates are used again, so a late call creates the same pod; a failure needs an abandoned create that takes effect within 15 s after a scale-up",
    direct: "an unanswered create becomes a planned intent with the time until which it may still take effect",
  },
  {
    rule: "deadline",
    beside: ["mayLand", "restamp"],
    why: "as mayLand",
    direct: "ST2 recovery waits until calls of a dead run can no longer take effect",
  },
  { rule: "restamp", why: "as mayLand", direct: "a write-through restarts the deadlines of the run's pending intents" },
  {
    rule: "lowers",
    why: "recovery settles the same operations 20 s later",
    direct: "IT2 [informer T76] a watch event lowers an intent once, by name or uid",
  },
  {
    rule: "ownStatus",
    why: "causes one additional run, and the invariant `rest` allows 60",
    direct: "a status write enqueues the Deployment and not its own key",
  },
  {
    rule: "renewal",
    why: "two runs of a key generate the same names, delete by uid, and settle only their own operations",
    direct: "WQ2 a renewal extends the lease to its full duration",
  },
  { rule: "early", why: "causes one additional run, which reads the same rows", direct: "WQ3 [informer T63] keeps the earliest time" },
  { rule: "bells", why: "the sweeper sends the doorbell 7 s later", direct: "WQ5 [informer T67] a lost doorbell is replaced within 7 s" },
  {
    rule: "beat",
    beside: ["primary"],
    why: "the next message of a lane, at the latest its heartbeat, reveals a gap in a lane that was rolled back; earlier runs may fail",
    direct: "a checkpoint older than the last confirmed one shows a rollback of the Store",
  },
  {
    rule: "primary",
    why: "as beat; also, a Store that was rolled back generates the same names",
    direct: "after a failover, gates stay closed until the fence is opened on the new primary",
  },
  {
    rule: "gate",
    why: "generated names, uids and the rows of dead runs make decisions based on an outdated cache harmless",
    direct: "after a failover, gates stay closed until the fence is opened on the new primary",
  },
  {
    rule: "damage",
    why: "no schedule damages the Store",
    direct: "SL3 [informer T50] marks all other resources SUSPECT if the data of one resource is missing",
  },
];
/**
 * Rules outside of a schedule: its worker deletes by uid, and its Recreate Deployment reads no live pods. `npm run sim -- --off` covers
 * them.
 */
const SYSTEM_LEVEL: readonly Rule[] = ["deletePrecondition", "livePods", "stop", "signature", "full", "identity"];

test.each([
  ["fixed", 1, FIXED],
  // Failed when an applier's wait carried crashes into the quiet phase.
  ["once-failed", 796_914_660, 1],
  // No checkpoint shows a loss between two checkpoints (informer §11.7). The check excused only runs that began before the next checkpoint.
  ["once-failed", 900_220, 1],
  // A rolled-back Store used the number of a list a second time, and its gate stayed closed.
  ["once-failed", 910_533, 1],
  // Failed when the quiet phase was shorter than the backward jumps of the clock.
  ["once-failed", 905_481, 1],
  // A pod was released before its creator got the response; the newer row had no owner, and nothing queued the creator's key.
  ["once-failed", 11_913, 1],
  // The Store was rolled back between two calls of one message, and the second call committed the watermark without the first one's rows
  // (A15).
  ["once-failed", 902_931, 1],
  // A refused repetition of an unanswered create gave up the name, although the first call had created the pod: the model's worker did not
  // read that pod, as createPods does.
  ["once-failed", 71_300_183, 1],
  // A pod without owner was adopted beside a late create, while the cache lacked it: the model's worker does not list before its first creates.
  ["once-failed", 80_380_219, 1],
  // A rejected create was repeated under another name, although a call that the set-back Store did not know had created the pod: the model's
  // worker gave up the name, unlike createPods.
  ["once-failed", 80_535_238, 1],
] as const)("%s seeds of the protocol simulation, from %i on, violate no invariant", async (_, first, count) => {
  const { ran, failed } = await runProtocol({ first, last: first + count - 1 });
  expect(failed).toEqual([]);
  expect(ran).toBe(count);
});

test.each(FRESH)("new seeds of the protocol simulation, from %i on, violate no invariant", async (first) => {
  const { failed } = await runProtocol({ first, last: first + FRESH_PER_TEST - 1 });
  expect(await Promise.all(failed.slice(0, 1).map((each) => describeFailure(each)))).toEqual([]);
});

test.each(PLANTED)("without rule %s, seed %i of the protocol simulation fails", async (rule, seed) => {
  const { failed } = await runProtocol({ first: seed, last: seed, off: new Set([rule]) });
  expect(failed).not.toEqual([]);
});

test("each rule has a seed that needs it, or a reason and a direct test", async () => {
  const folder = join(import.meta.dirname, "..", "..", "conformance", "store");
  const titles = await Promise.all((await readdir(folder)).map((file) => readFile(join(folder, file), "utf8")));
  expect(UNSEEN.filter(({ direct }) => !titles.some((text) => text.includes(direct)))).toEqual([]);
  const all = [...PLANTED.map(([rule]) => rule), ...UNSEEN.map(({ rule }) => rule), ...SYSTEM_LEVEL];
  expect(all.toSorted()).toEqual(RULES.toSorted());
});

test("prints a failed seed in at most 40 lines, with the invariant and the command that repeats the seed", async () => {
  const off = new Set<Rule>(["A11"]);
  const { failed } = await runProtocol({ first: 2, last: 2, off });
  const lines = failed[0] ? await describeFailure(failed[0], off) : [];
  expect(lines.length).toBeLessThanOrEqual(40);
  expect(lines.join("\n")).toContain("npm run sim -- --protocol --seed 2 --off A11");
});

test("a guided search reaches rare steps at least three times as often as new seeds", async () => {
  const rare = { blind: 0, guided: 0 };
  for (const firstSeed of [1, 77, 5_000_000]) {
    const [blind, guided] = [await hunt(some({ firstSeed, continued: 0 })), await hunt(some({ firstSeed }))];
    for (const step of guided.steps.keys()) {
      const count = blind.steps.get(step) ?? 0;
      if (count > 4) continue;
      rare.blind += count;
      rare.guided += guided.steps.get(step) ?? 0;
    }
    expect(guided.failed).toBe(0);
    expect(describeUnreached(guided).join("\n")).toContain("not with");
  }
  expect(rare.guided).toBeGreaterThan(3 * rare.blind);
});

test("a guided search shrinks the schedules that fail, and prints names that repeat them", async () => {
  const off = new Set<Rule>(["A3"]);
  const names: string[] = [];
  await hunt({
    ...some({ off }),
    onFailure: async (name, rule) => {
      const small = await shrink(name, rule, off);
      expect(small.variant.steps + small.variant.skip.size + small.variant.without.size).toBeGreaterThan(0);
      names.push(scheduleNameOf(small));
    },
  });
  expect(names).not.toEqual([]);
  const lines: string[] = [];
  for (const name of names) {
    expect(scheduleNameOf(parseScheduleName(name))).toBe(name);
    expect(await printSchedule(name, off, (line) => lines.push(line))).toBe(false);
    expect(await printSchedule(name, new Set(), () => undefined)).toBe(true);
  }
  expect(lines.length).toBeLessThanOrEqual(40 * names.length);
});

test.each(["", "x", "7@2", "7/steps", "7/speed=3"])("rejects %j as the name of a schedule", (text) => {
  expect(() => parseScheduleName(text)).toThrow(/not a (schedule|part of a schedule): /);
});

function some(options: Partial<HuntOptions>): HuntOptions {
  return { firstSeed: 1, goesOn: (ran) => ran < 200, ...options };
}

test("a run of the protocol simulation is reproducible from its seed", async () => {
  const [first, second] = [await runProtocol({ first: 11, last: 11 }), await runProtocol({ first: 11, last: 11 })];
  expect(second).toEqual(first);
});
