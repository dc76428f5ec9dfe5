/** `deltaloop replay FILE`: what would our controllers have done with this stream? */
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { createDigester } from "@deltaloop/kube/pod-template";
import { CACHED_RESOURCES, CONTROLLER_INFO, RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Capture } from "@deltaloop/replay/capture";
import { closedReplay, SeenLife, replay } from "@deltaloop/replay/replay";
import type { ClosedEnd, UserRequest, ReplayOptions, ReplaySummary, ReplayedSync } from "@deltaloop/replay/replay";
import { changesIn } from "@deltaloop/replay/shadow";
import { FamilyCensus, versionAt } from "@deltaloop/replay/explain";
import type { Subject } from "@deltaloop/replay/explain";
import { consoleLog, printable, printableJson } from "@deltaloop/base/output";
import { functionHandlers } from "./functions/functions.ts";
import { momentIn } from "./command/moment.ts";
import { openRecords, reading, sparingMemory } from "./capture/read-records.ts";
import { faultsIn, FAULTS } from "./replay/replay-faults.ts";
import { ReplayText } from "./replay/replay-text.ts";
import type { ReplayTextOptions } from "./replay/replay-text.ts";
import { AroundMoment, Output, Steps } from "./replay/replay-output.ts";
import { subjectIn, wantedBy } from "./explain/subject.ts";
import { UsageError, wholeNumber } from "@deltaloop/base";
import { versionText } from "./replay/version-text.ts";

interface ReplayFlags extends ReplayTextOptions {
  readonly seed: number;
  readonly key?: readonly string[];
  readonly at?: string;
  readonly until?: string;
  readonly show?: string;
  readonly step?: true;
  readonly faults?: string;
  readonly closed?: true;
  readonly json?: true;
}

export function registerReplay(program: Command): void {
  program
    .command("replay")
    .description("feed a capture through the functions under a virtual clock and show what each sync decides; sends nothing")
    .argument("<file>", "JSON Lines, gzip allowed; up to 24 hours and 16 GiB unpacked, of which 256 MiB may stand there at one time")
    .option("--seed <n>", "seed of everything random", wholeNumber("--seed", { min: 0, max: 2 ** 31 }), 1)
    .option("--key <object>", "show the syncs of deploy/web, rs/web-7f8fb or rc/web alone; may be repeated", collected, [])
    .option("--at <time>", "show the last sync of each key until then and the next one: +12.3s, 10:02:11.5 or 2026-03-01T10:02:11Z")
    .option("--until <time>", "stop there")
    .option("--show <object>", "show deploy/web, rs/…, rc/… or pod/… as it stood at --at (or at the end), and replay nothing")
    .option("--step", "wait for Enter after each sync that is shown; a number goes on by as many, q ends")
    .option(
      "--faults <list>",
      `what befalls messages: ${Object.entries(FAULTS)
        .map(([name, what]) => `${name} (${what})`)
        .join(", ")}, or none`,
    )
    .option(
      "--closed",
      "do again what people did, on an API server in memory with our controllers, and compare where it ends; exit code 1 where that differs",
    )
    .option("--why", "with the reasons of each decision")
    .option("--all", "also show syncs that decided nothing")
    .option("--json", "one JSON object per sync")
    .option("-v, --verbose", "log of the watcher and the functions, and what depended on an answer that a replay never gets")
    .action(runReplay);
}

const EXIT_DIFFERS = 1;

function collected(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

async function runReplay(file: string, flags: ReplayFlags): Promise<void> {
  const named = [...(flags.show === undefined ? [] : [flags.show]), ...(flags.key ?? [])];
  const census = new FamilyCensus(named.map(wantedBy));
  sparingMemory(file);
  const capture = await openRecords(file, census);
  const { startMs, endMs } = capture;
  const atMs = flags.at === undefined ? undefined : momentIn("--at", flags.at, startMs, endMs);
  if (flags.show !== undefined) return show(capture, subjectIn(flags.show, census), atMs ?? endMs);
  const untilMs = flags.until === undefined ? undefined : momentIn("--until", flags.until, startMs, endMs);
  if (flags.step && (!process.stdin.isTTY || flags.json))
    throw new UsageError("--step is for a terminal: it waits for Enter after each sync");
  const keys = keysIn(census, flags);
  if (flags.closed) return closed(capture, file, flags, keys);
  const near = atMs === undefined ? undefined : new AroundMoment(atMs);
  const told = new ReplayText(startMs);
  const tell = (sync: ReplayedSync): string => (flags.json ? `${printableJson(sync)}\n` : told.of(sync, flags));
  const teller = flags.step ? new Steps() : new Output();
  const { summary, decisionDigest } = await decisions(capture, flags, untilMs, {
    onSync(sync) {
      if (keys !== undefined && !keys.has(idOf(sync))) return;
      if (near === undefined) teller.tell(tell(sync));
      else near.see(idOf(sync), sync);
    },
    goesOn: () => teller.goesOn(),
  });
  for (const sync of near?.chosen() ?? []) teller.tell(tell(sync));
  const goesOn = await teller.goesOn();
  teller.end();
  if (!goesOn) return;
  if (flags.json) return void process.stdout.write(`${JSON.stringify({ summary: { ...summary, decisionDigest } })}\n`);
  process.stdout.write(`${told.rest()}${summaryText(summary)}\nDecision digest of seed ${flags.seed} ${decisionDigest}\n`);
}

/** @throws {UsageError} when its objects are stripped, or with flags that are of the recorded stream */
async function closed(capture: Capture, file: string, flags: ReplayFlags, keys: ReadonlySet<string> | undefined): Promise<void> {
  const { seed, verbose, json } = flags;
  const other = (["at", "until", "faults", "step"] as const).find((name) => flags[name] !== undefined);
  if (other !== undefined) throw new UsageError(`--closed is another life than the recorded one: --${other} is of that`);
  const log = consoleLog("", verbose ? "info" : "error");
  const digester = createDigester(`replay ${seed}`.padEnd(32));
  const malformed = (what: string): void => log.warn(`left out: ${printable(what)}`);
  const seen = new SeenLife(file);
  await reading(file, async () => {
    for await (const { changes } of changesIn(capture, { name: file, digester, malformed })) for (const change of changes) seen.see(change);
  });
  const told = new ReplayText(capture.startMs);
  const end = await closedReplay(seen.life, {
    ...{ digester, seed, log, functions: functionHandlers },
    onPerson: (write, status) => process.stdout.write(json ? `${printableJson(personJson(write, status))}\n` : told.person(write, status)),
    onSync: (sync) => {
      if (keys === undefined || keys.has(idOf(sync))) process.stdout.write(json ? `${printableJson(sync)}\n` : told.of(sync, flags));
    },
  });
  if (json) process.stdout.write(`${printableJson({ summary: end })}\n`);
  else process.stdout.write(`${told.rest()}\n${closedText(end)}`);
  if (end.disagreements.length > 0) process.exitCode = EXIT_DIFFERS;
}

function personJson(write: UserRequest, status: number): object {
  const { atMs, kind, resource, namespace, name } = write;
  return { at: new Date(atMs).toISOString(), person: kind, resource, namespace, name, status };
}

function closedText({ disagreements, left, podsCreated }: ClosedEnd): string {
  const lines = [
    `Our controllers created ${podsCreated} pods, and ${disagreements.length === 0 ? "came to where the recorded ones came." : "ended elsewhere than the recorded ones:"}`,
    ...disagreements.map((line) => `  ${line}`),
    ...(left.length === 0
      ? []
      : ["What people did to objects whose names were drawn was not done again:", ...left.map((what) => `  ${what}`)]),
  ];
  return lines.map((line) => `${printable(line)}\n`).join("");
}

/** The digest is of every sync, whatever is shown. */
async function decisions(
  capture: Capture,
  { seed, verbose, faults }: ReplayFlags,
  untilMs: number | undefined,
  { onSync, goesOn }: Pick<ReplayOptions, "onSync"> & { readonly goesOn: () => Promise<boolean> },
): Promise<{ readonly summary: ReplaySummary; readonly decisionDigest: string }> {
  const digest = createHash("sha256");
  const summary = await replay(capture, {
    // Nothing leaves this process, and one seed shall give one output.
    digester: createDigester(`replay ${seed}`.padEnd(32)),
    seed,
    log: consoleLog("", verbose ? "info" : "error"),
    functions: functionHandlers,
    ...(faults !== undefined && { faults: faultsIn(faults) }),
    ...(untilMs !== undefined && { untilMs }),
    onSync: (sync) => {
      digest.update(`${printableJson(sync)}\n`);
      onSync(sync);
    },
    goesOn,
  });
  return { summary, decisionDigest: digest.digest("hex") };
}

/** @throws {UsageError} when one is not in the capture, or has no controller here */
function keysIn(census: FamilyCensus, { key = [] }: ReplayFlags): ReadonlySet<string> | undefined {
  if (key.length === 0) return undefined;
  return new Set(
    key.map((text) => {
      const { resource, namespace, name } = subjectIn(text, census);
      if (resource === "pods")
        throw new UsageError(`--key ${text}: a pod is no key; \`deltaloop explain FILE ${text}\` tells what was decided about it`);
      return `${resource} ${namespace}/${name}`;
    }),
  );
}

function idOf({ controller, key }: ReplayedSync): string {
  return `${CONTROLLER_INFO[controller].primary} ${key}`;
}

async function show(capture: Capture, subject: Subject, atMs: number): Promise<void> {
  const moment = await versionAt(capture.batches(), { subject, atMs }, createDigester("show".padEnd(32)));
  process.stdout.write(versionText(subject, moment, { atMs, startMs: capture.startMs }));
}

function summaryText({ syncs, decided, objects, quarantined, cacheDigest }: ReplaySummary): string {
  const cached = CACHED_RESOURCES.map((resource) => `${objects[resource]} ${plural(resource)}`).join(", ");
  const aside = quarantined > 0 ? `, ${quarantined} objects quarantined` : "";
  return `\n${syncs} syncs decided ${decided} writes, none was sent. Cache at the end: ${cached}${aside}.\nCache digest ${cacheDigest}`;
}

/** As people write it: `ReplicaSets`, but `pods`. */
function plural(resource: CachedResource): string {
  return resource === "pods" ? resource : `${RESOURCES[resource].kind}s`;
}
