/** `deltaloop replay FILE`: what deltaloop's controllers decide on a recorded stream. */
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import { actingRelease, recordedRelease, recordedReleaseOption } from "./capture/recorded-release.ts";
import type { RecordedReleaseFlag } from "./capture/recorded-release.ts";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
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
import { UsageError, wholeNumber, collected } from "@deltaloop/base";
import { versionText } from "./replay/version-text.ts";

interface ReplayFlags extends ReplayTextOptions, RecordedReleaseFlag {
  readonly seed: number;
  readonly key?: readonly string[];
  readonly at?: string;
  readonly until?: string;
  readonly show?: string;
  readonly step?: true;
  readonly faults?: string;
  readonly closed?: true;
  readonly output?: OutputFormat;
  readonly namespace?: string;
}

export function registerReplay(program: Command): void {
  const command = program
    .command("replay")
    .description("Feeds a capture to the controllers and prints what each sync decides.")
    .argument("<file>", "capture, optionally gzip-compressed; up to 24 hours and 16 GiB unpacked, with up to 256 MiB of objects at a time")
    .option("--closed", "repeat the user requests on an in-memory API server with deltaloop's controllers, and compare the final states")
    .option("--show <object>", "print an object as it was at --at, or at the end, and replay nothing")
    .option("--step", "wait for Enter after each sync; a number continues for that many syncs, q quits")
    .addOption(recordedReleaseOption())
    .optionsGroup("Filters:")
    .option("--key <object>", "print only the syncs of this object; repeatable", collected, [])
    .option("-n, --namespace <name>", "namespace of --key and --show, if objects of several namespaces have the name")
    .option("--at <time>", "print only the last sync of each key before this time and the next one")
    .option("--until <time>", "stop at this time")
    .option("--all", "print syncs without a decision too")
    .optionsGroup("Input:")
    .option("--seed <n>", "random seed, for example of faults", wholeNumber("--seed", { min: 0, max: 2 ** 31 }), 1)
    .option(
      "--faults <list>",
      `comma-separated faults of the queue: ${Object.entries(FAULTS)
        .map(([name, what]) => `${name} (${what})`)
        .join(", ")}, or none (default: none)`,
    )
    .optionsGroup("Output:")
    .option("--why", "print the reasons of each decision")
    .option("-v, --verbose", "print the log of watcher and functions, and decisions that depend on a response that a replay does not have");
  withDetails(addOutputOption(command, "one object per sync").action(runReplay), {
    notes: [
      "Sends nothing to a cluster. Exits with 1 when --closed finds a different final state.",
      "A time is +12.3s from the beginning, 10:02:11.5 or 2026-03-01T10:02:11Z. An object is written as for kubectl: deploy/web, deployment.apps/web, rs/web-7f8fb, rc/web or pod/web-7f8fb-x2x4z.",
    ],
    examples: [
      "replay rollout.jsonl.gz --why",
      "replay rollout.jsonl.gz --key deploy/web -n shop --at +12.3s",
      "replay rollout.jsonl.gz -o json",
    ],
  });
}

const EXIT_DIFFERS = 1;

async function runReplay(file: string, flags: ReplayFlags): Promise<void> {
  const named = [...(flags.show === undefined ? [] : [flags.show]), ...(flags.key ?? [])];
  const census = new FamilyCensus(named.map((text) => wantedBy(text, flags.namespace)));
  sparingMemory(file);
  const capture = await openRecords(file, census);
  const { startMs, endMs } = capture;
  const atMs = flags.at === undefined ? undefined : momentIn("--at", flags.at, startMs, endMs);
  if (flags.show !== undefined) return show(capture, subjectIn(flags.show, census, flags.namespace), atMs ?? endMs);
  const untilMs = flags.until === undefined ? undefined : momentIn("--until", flags.until, startMs, endMs);
  if (flags.step && (!process.stdin.isTTY || flags.output))
    throw new UsageError("--step waits for Enter: it needs a terminal and cannot be combined with -o");
  const keys = keysIn(census, flags);
  if (flags.closed) return closed(capture, file, flags, keys);
  const near = atMs === undefined ? undefined : new AroundMoment(atMs);
  const text = new ReplayText(startMs);
  const textOf = (sync: ReplayedSync): string => (flags.output ? objectText(sync, flags.output) : text.of(sync, flags));
  const output = flags.step ? new Steps() : new Output();
  const { summary, decisionDigest } = await decisions(capture, flags, untilMs, {
    onSync(sync) {
      if (keys !== undefined && !keys.has(idOf(sync))) return;
      if (near === undefined) output.print(textOf(sync));
      else near.see(idOf(sync), sync);
    },
    goesOn: () => output.goesOn(),
  });
  for (const sync of near?.chosen() ?? []) output.print(textOf(sync));
  const goesOn = await output.goesOn();
  output.end();
  if (!goesOn) return;
  if (flags.output) return void process.stdout.write(objectText({ summary: { ...summary, decisionDigest } }, flags.output));
  process.stdout.write(`${text.rest()}${summaryText(summary)}\nDecision digest of seed ${flags.seed} ${decisionDigest}\n`);
}

/** Runs a closed replay. @throws {UsageError} for stripped objects, or flags about the recorded stream */
async function closed(capture: Capture, file: string, flags: ReplayFlags, keys: ReadonlySet<string> | undefined): Promise<void> {
  const { seed, verbose, output } = flags;
  const other = (["at", "until", "faults", "step"] as const).find((name) => flags[name] !== undefined);
  if (other !== undefined)
    throw new UsageError(`--${other} applies to the recorded stream, which --closed does not replay: remove one of them`);
  const log = consoleLog("", verbose ? "info" : "error");
  const digester = createDigester(`replay ${seed}`.padEnd(32), ALL_RELEASES);
  const malformed = (what: string): void => log.warn(`skipped: ${printable(what)}`);
  const seen = new SeenLife(file);
  await reading(file, async () => {
    for await (const { changes } of changesIn(capture, { name: file, digester, malformed })) for (const change of changes) seen.see(change);
  });
  const text = new ReplayText(capture.startMs);
  const release = recordedRelease(flags.kubernetes, capture);
  const end = await closedReplay(seen.life, {
    ...{ digester, seed, log, functions: functionHandlers },
    ...(release && { release: actingRelease(release) }),
    onPerson: (write, status) =>
      process.stdout.write(output ? objectText(userRequestJson(write, status), output) : text.user(write, status)),
    onSync: (sync) => {
      if (keys === undefined || keys.has(idOf(sync))) process.stdout.write(output ? objectText(sync, output) : text.of(sync, flags));
    },
  });
  if (output) process.stdout.write(objectText({ summary: end }, output));
  else process.stdout.write(`${text.rest()}\n${closedText(end)}`);
  if (end.disagreements.length > 0) process.exitCode = EXIT_DIFFERS;
}

function userRequestJson(write: UserRequest, status: number): object {
  const { atMs, kind, resource, namespace, name } = write;
  return { at: new Date(atMs).toISOString(), person: kind, resource, namespace, name, status };
}

function closedText({ disagreements, left, podsCreated }: ClosedEnd): string {
  const lines = [
    `deltaloop's controllers created ${podsCreated} pods, and ${disagreements.length === 0 ? "reached the recorded final state." : "reached a final state that differs from the recorded one:"}`,
    ...disagreements.map((line) => `  ${line}`),
    ...(left.length === 0 ? [] : ["User requests to objects with generated names were not repeated:", ...left.map((what) => `  ${what}`)]),
  ];
  return lines.map((line) => `${printable(line)}\n`).join("");
}

/** The digest covers every sync, even syncs that are not printed. */
async function decisions(
  capture: Capture,
  { seed, verbose, faults, kubernetes }: ReplayFlags,
  untilMs: number | undefined,
  { onSync, goesOn }: Pick<ReplayOptions, "onSync"> & { readonly goesOn: () => Promise<boolean> },
): Promise<{ readonly summary: ReplaySummary; readonly decisionDigest: string }> {
  const digest = createHash("sha256");
  const release = recordedRelease(kubernetes, capture);
  const summary = await replay(capture, {
    // No data leaves this process, and the output depends only on the seed.
    digester: createDigester(`replay ${seed}`.padEnd(32), ALL_RELEASES),
    seed,
    log: consoleLog("", verbose ? "info" : "error"),
    functions: functionHandlers,
    ...(release && { release }),
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

/** Returns the keys of the selected objects. @throws {UsageError} if an object is not in the capture, or has no controller */
function keysIn(census: FamilyCensus, { key = [], namespace: given }: ReplayFlags): ReadonlySet<string> | undefined {
  if (key.length === 0) return undefined;
  return new Set(
    key.map((text) => {
      const { resource, namespace, name } = subjectIn(text, census, given);
      if (resource === "pods") throw new UsageError(`--key ${text}: pods have no syncs; run \`deltaloop explain FILE ${text}\``);
      return `${resource} ${namespace}/${name}`;
    }),
  );
}

function idOf({ controller, key }: ReplayedSync): string {
  return `${CONTROLLER_INFO[controller].primary} ${key}`;
}

async function show(capture: Capture, subject: Subject, atMs: number): Promise<void> {
  const moment = await versionAt(capture.batches(), { subject, atMs }, createDigester("show".padEnd(32), ALL_RELEASES));
  process.stdout.write(versionText(subject, moment, { atMs, startMs: capture.startMs }));
}

function summaryText({ syncs, decided, objects, quarantined, cacheDigest }: ReplaySummary): string {
  const cached = CACHED_RESOURCES.map((resource) => `${objects[resource]} ${plural(resource)}`).join(", ");
  const aside = quarantined > 0 ? `, ${quarantined} objects quarantined` : "";
  return `\n${syncs} syncs decided ${decided} writes; none was sent. Cache at the end: ${cached}${aside}.\nCache digest ${cacheDigest}`;
}

/** `ReplicaSets`, but `pods`. */
function plural(resource: CachedResource): string {
  return resource === "pods" ? resource : `${RESOURCES[resource].kind}s`;
}
