/**
 * The scripts as text, each preceded by the names of its KEYS and ARGV (layouts.ts) and the libraries it needs.
 *
 * Contract with the build (infra/build): a bundle has no .lua files next to it, so every expression of exactly this form,
 *
 *     readFileSync(new URL("./<path>.lua", import.meta.url), "utf8")
 *
 * with a literal path relative to this file, is replaced by the file's content as a string literal. Without a build the files are read.
 * Nothing else here uses the file system, and no other module reads a script.
 */
import { readFileSync } from "node:fs";

import {
  EVENT_BURST,
  EVENT_COUNT_MAX,
  EVENT_MEMORY_MAX,
  EVENTS_PER_SECOND,
  SIMILAR_MESSAGES_MAX,
  SIMILAR_WITHIN_MS,
} from "@deltaloop/kube/events";
import { EPOCHS_MAX, EPOCHS_REASON, EPOCHS_WINDOW_MS } from "../../ports/lineage.ts";
import { EVENT_MEMORY_MS } from "../../ports/events.ts";
import { CLOCK_TRUST_MS, EXPECTATION_MS, LEASE_MS, MAY_LAND_MS, OP_DEADLINE_MS } from "@deltaloop/base";
import { CHANGES, GATE, LAYOUTS } from "./layout-table.ts";
import { COMMON_PRELUDE, numbered, prelude } from "./layouts.ts";
import type { ScriptName } from "./layouts.ts";

/** The constants of shared/base/times.ts that scripts use. */
const times = locals({ LEASE_MS, OP_DEADLINE_MS, MAY_LAND_MS, EXPECTATION_MS });
const eventRules = locals({
  EVENT_BURST,
  EVENT_COUNT_MAX,
  EVENT_MEMORY_MAX,
  EVENT_MEMORY_MS,
  EVENTS_PER_SECOND,
  SIMILAR_MESSAGES_MAX,
  SIMILAR_WITHIN_MS,
});
const base = locals({ CLOCK_TRUST_MS }) + COMMON_PRELUDE + readFileSync(new URL("./lib/base.lua", import.meta.url), "utf8");
const queue = readFileSync(new URL("./lib/queue.lua", import.meta.url), "utf8");
const intents = readFileSync(new URL("./lib/intents.lua", import.meta.url), "utf8");
const ending = readFileSync(new URL("./lib/ending.lua", import.meta.url), "utf8");
const index = numbered(CHANGES, readFileSync(new URL("./lib/index.lua", import.meta.url), "utf8"));
const sequence = readFileSync(new URL("./lib/sequence.lua", import.meta.url), "utf8");
const tally = readFileSync(new URL("./lib/tally.lua", import.meta.url), "utf8");
const lineageRules = locals({ EPOCHS_MAX, EPOCHS_WINDOW_MS }) + `local EPOCHS_REASON = ${JSON.stringify(EPOCHS_REASON)}\n`;
const lineage = lineageRules + readFileSync(new URL("./lib/lineage.lua", import.meta.url), "utf8");
const stop = readFileSync(new URL("./lib/stop.lua", import.meta.url), "utf8");
const gate = stop + numbered(GATE, readFileSync(new URL("./lib/gate.lua", import.meta.url), "utf8"));

/** Each script's text after its libraries. All start with lib/base.lua. */
const TEXTS: Readonly<Record<ScriptName, readonly string[]>> = {
  add: [queue, readFileSync(new URL("./work-queue/add.lua", import.meta.url), "utf8")],
  applyManifest: [
    queue,
    intents,
    index,
    sequence,
    lineage,
    gate,
    tally,
    readFileSync(new URL("./index/apply-manifest.lua", import.meta.url), "utf8"),
  ],
  applyPack: [queue, intents, index, sequence, tally, readFileSync(new URL("./index/apply-pack.lua", import.meta.url), "utf8")],
  beat: [readFileSync(new URL("./epochs/beat.lua", import.meta.url), "utf8")],
  checkpoint: [queue, readFileSync(new URL("./epochs/checkpoint.lua", import.meta.url), "utf8")],
  claimPeriodicJobs: [readFileSync(new URL("./epochs/claim-periodic-jobs.lua", import.meta.url), "utf8")],
  correlateEvents: [eventRules, readFileSync(new URL("./audit/correlate-events.lua", import.meta.url), "utf8")],
  done: [queue, ending, readFileSync(new URL("./work-queue/done.lua", import.meta.url), "utf8")],
  dueIn: [readFileSync(new URL("./work-queue/due-in.lua", import.meta.url), "utf8")],
  forgeries: [readFileSync(new URL("./audit/forgeries.lua", import.meta.url), "utf8")],
  forgetOpened: [readFileSync(new URL("./epochs/forget-opened.lua", import.meta.url), "utf8")],
  heartbeat: [readFileSync(new URL("./epochs/heartbeat.lua", import.meta.url), "utf8")],
  lineage: [lineage, readFileSync(new URL("./epochs/lineage.lua", import.meta.url), "utf8")],
  forget: [readFileSync(new URL("./epochs/forget.lua", import.meta.url), "utf8")],
  gate: [lineage, gate, readFileSync(new URL("./epochs/gate.lua", import.meta.url), "utf8")],
  markSuspect: [readFileSync(new URL("./epochs/mark-suspect.lua", import.meta.url), "utf8")],
  noteForgery: [readFileSync(new URL("./audit/note-forgery.lua", import.meta.url), "utf8")],
  openEpoch: [lineage, readFileSync(new URL("./epochs/open-epoch.lua", import.meta.url), "utf8")],
  openFence: [queue, intents, index, lineage, readFileSync(new URL("./epochs/open-fence.lua", import.meta.url), "utf8")],
  openGeneration: [readFileSync(new URL("./epochs/open-generation.lua", import.meta.url), "utf8")],
  parked: [queue, readFileSync(new URL("./work-queue/parked.lua", import.meta.url), "utf8")],
  quarantine: [tally, readFileSync(new URL("./audit/quarantine.lua", import.meta.url), "utf8")],
  quarantined: [readFileSync(new URL("./audit/quarantined.lua", import.meta.url), "utf8")],
  queued: [queue, readFileSync(new URL("./work-queue/queued.lua", import.meta.url), "utf8")],
  readEntries: [readFileSync(new URL("./index/read-entries.lua", import.meta.url), "utf8")],
  readIndex: [readFileSync(new URL("./index/read-index.lua", import.meta.url), "utf8")],
  readLane: [readFileSync(new URL("./index/read-lane.lua", import.meta.url), "utf8")],
  readManifest: [readFileSync(new URL("./index/read-manifest.lua", import.meta.url), "utf8")],
  readSlices: [readFileSync(new URL("./index/read-slices.lua", import.meta.url), "utf8")],
  readStop: [readFileSync(new URL("./foreign-writes/read-stop.lua", import.meta.url), "utf8")],
  registerIntents: [times, queue, intents, readFileSync(new URL("./intents/register-intents.lua", import.meta.url), "utf8")],
  renew: [times, queue, stop, readFileSync(new URL("./work-queue/renew.lua", import.meta.url), "utf8")],
  replace: [readFileSync(new URL("./index/replace.lua", import.meta.url), "utf8")],
  resync: [queue, readFileSync(new URL("./work-queue/resync.lua", import.meta.url), "utf8")],
  scan: [readFileSync(new URL("./epochs/scan.lua", import.meta.url), "utf8")],
  setStop: [readFileSync(new URL("./foreign-writes/set-stop.lua", import.meta.url), "utf8")],
  stashManifest: [queue, intents, index, sequence, readFileSync(new URL("./index/stash-manifest.lua", import.meta.url), "utf8")],
  sweep: [queue, lineage, gate, readFileSync(new URL("./work-queue/sweep.lua", import.meta.url), "utf8")],
  take: [times, queue, intents, lineage, gate, readFileSync(new URL("./work-queue/take.lua", import.meta.url), "utf8")],
  tallies: [readFileSync(new URL("./audit/tallies.lua", import.meta.url), "utf8")],
  writeThrough: [times, queue, ending, intents, index, readFileSync(new URL("./intents/write-through.lua", import.meta.url), "utf8")],
};

/** The parts of each script, by its name in ../connection.ts. */
export const SCRIPTS = Object.fromEntries(
  (Object.keys(TEXTS) as ScriptName[]).map((script) => {
    const own = TEXTS[script].length - 1;
    const parts = TEXTS[script].map((part, i) => (i === own ? numbered(LAYOUTS[script].args, part) : part));
    return [script, [base, prelude(script, parts), ...parts]];
  }),
) as unknown as Readonly<Record<ScriptName, readonly [string, ...string[]]>>; // the same names as TEXTS

function locals(values: Readonly<Record<string, number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `local ${name} = ${value}\n`)
    .join("");
}
