/**
 * The scripts as text, each with the libraries it needs in front.
 *
 * Contract with the build (infra/build): a bundle has no .lua files beside it, so every expression of exactly this form,
 *
 *     readFileSync(new URL("./<path>.lua", import.meta.url), "utf8")
 *
 * with a literal path relative to this file, is replaced by the file's content as a string literal. Run unbuilt, it reads
 * the file. Nothing else here touches the file system, and no other module reads a script.
 */
import { readFileSync } from "node:fs";

import {
  EVENT_BURST,
  EVENT_COUNT_MAX,
  EVENT_MEMORY_MAX,
  EVENTS_PER_SECOND,
  SIMILAR_MESSAGES_MAX,
  SIMILAR_WITHIN_MS,
} from "../../../api/event-correlator.ts";
import { EVENT_MEMORY_MS } from "../../../ports/store/events.ts";
import { EXPECTATION_MS, LEASE_MS, MAY_LAND_MS, OP_DEADLINE_MS } from "../../../ports/times.ts";

/** What scripts need of shared/ports/times.ts. */
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
const base = readFileSync(new URL("./lib/base.lua", import.meta.url), "utf8");
const queue = readFileSync(new URL("./lib/queue.lua", import.meta.url), "utf8");
const intents = readFileSync(new URL("./lib/intents.lua", import.meta.url), "utf8");
const ending = readFileSync(new URL("./lib/ending.lua", import.meta.url), "utf8");
const index = readFileSync(new URL("./lib/index.lua", import.meta.url), "utf8");
const sequence = readFileSync(new URL("./lib/sequence.lua", import.meta.url), "utf8");
const tallyLibrary = readFileSync(new URL("./lib/tally.lua", import.meta.url), "utf8");
const gateLibrary = readFileSync(new URL("./lib/gate.lua", import.meta.url), "utf8");

const add = readFileSync(new URL("./add.lua", import.meta.url), "utf8");
const applyManifest = readFileSync(new URL("./apply-manifest.lua", import.meta.url), "utf8");
const applyPack = readFileSync(new URL("./apply-pack.lua", import.meta.url), "utf8");
const checkpoint = readFileSync(new URL("./checkpoint.lua", import.meta.url), "utf8");
const correlateEvents = readFileSync(new URL("./correlate-events.lua", import.meta.url), "utf8");
const done = readFileSync(new URL("./done.lua", import.meta.url), "utf8");
const forget = readFileSync(new URL("./forget.lua", import.meta.url), "utf8");
const forgeries = readFileSync(new URL("./forgeries.lua", import.meta.url), "utf8");
const gate = readFileSync(new URL("./gate.lua", import.meta.url), "utf8");
const guard = readFileSync(new URL("./guard.lua", import.meta.url), "utf8");
const markSuspect = readFileSync(new URL("./mark-suspect.lua", import.meta.url), "utf8");
const noteForgery = readFileSync(new URL("./note-forgery.lua", import.meta.url), "utf8");
const openEpoch = readFileSync(new URL("./open-epoch.lua", import.meta.url), "utf8");
const openFence = readFileSync(new URL("./open-fence.lua", import.meta.url), "utf8");
const openGeneration = readFileSync(new URL("./open-generation.lua", import.meta.url), "utf8");
const parked = readFileSync(new URL("./parked.lua", import.meta.url), "utf8");
const quarantine = readFileSync(new URL("./quarantine.lua", import.meta.url), "utf8");
const quarantined = readFileSync(new URL("./quarantined.lua", import.meta.url), "utf8");
const queued = readFileSync(new URL("./queued.lua", import.meta.url), "utf8");
const readEntries = readFileSync(new URL("./read-entries.lua", import.meta.url), "utf8");
const readIndex = readFileSync(new URL("./read-index.lua", import.meta.url), "utf8");
const readLane = readFileSync(new URL("./read-lane.lua", import.meta.url), "utf8");
const readManifest = readFileSync(new URL("./read-manifest.lua", import.meta.url), "utf8");
const readSlices = readFileSync(new URL("./read-slices.lua", import.meta.url), "utf8");
const registerIntents = readFileSync(new URL("./register-intents.lua", import.meta.url), "utf8");
const renew = readFileSync(new URL("./renew.lua", import.meta.url), "utf8");
const replace = readFileSync(new URL("./replace.lua", import.meta.url), "utf8");
const resync = readFileSync(new URL("./resync.lua", import.meta.url), "utf8");
const scan = readFileSync(new URL("./scan.lua", import.meta.url), "utf8");
const setGuard = readFileSync(new URL("./set-guard.lua", import.meta.url), "utf8");
const stashManifest = readFileSync(new URL("./stash-manifest.lua", import.meta.url), "utf8");
const sweep = readFileSync(new URL("./sweep.lua", import.meta.url), "utf8");
const takeTurn = readFileSync(new URL("./take-turn.lua", import.meta.url), "utf8");
const take = readFileSync(new URL("./take.lua", import.meta.url), "utf8");
const tallies = readFileSync(new URL("./tallies.lua", import.meta.url), "utf8");
const writeThrough = readFileSync(new URL("./write-through.lua", import.meta.url), "utf8");

/** Script text by the name of the wrapper that calls it. */
export const SCRIPTS = {
  add: [base, queue, add],
  applyManifest: [base, queue, intents, index, sequence, gateLibrary, tallyLibrary, applyManifest],
  applyPack: [base, queue, intents, index, sequence, tallyLibrary, applyPack],
  checkpoint: [base, queue, checkpoint],
  correlateEvents: [eventRules, base, correlateEvents],
  done: [base, queue, ending, done],
  forget: [base, forget],
  forgeries: [base, forgeries],
  gate: [base, gateLibrary, gate],
  guard: [base, guard],
  markSuspect: [base, markSuspect],
  noteForgery: [base, noteForgery],
  openEpoch: [base, openEpoch],
  openFence: [base, queue, intents, index, openFence],
  openGeneration: [base, openGeneration],
  parked: [base, queue, parked],
  quarantine: [base, tallyLibrary, quarantine],
  quarantined: [base, quarantined],
  queued: [base, queue, queued],
  readEntries: [base, readEntries],
  readIndex: [base, readIndex],
  readLane: [base, readLane],
  readManifest: [base, readManifest],
  readSlices: [base, readSlices],
  registerIntents: [times, base, queue, intents, registerIntents],
  renew: [times, base, queue, renew],
  replace: [base, replace],
  resync: [base, queue, resync],
  scan: [base, scan],
  setGuard: [base, setGuard],
  stashManifest: [base, queue, intents, index, sequence, stashManifest],
  sweep: [base, queue, gateLibrary, sweep],
  take: [times, base, queue, intents, gateLibrary, take],
  takeTurn: [base, takeTurn],
  tallies: [base, tallies],
  writeThrough: [times, base, queue, ending, intents, index, writeThrough],
} as const;

export type ScriptName = keyof typeof SCRIPTS;

function locals(values: Readonly<Record<string, number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `local ${name} = ${value}\n`)
    .join("");
}
