/** `deltaloop replay FILE`: what would our controllers have done with this stream? */
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { createDigester } from "../shared/api/digest.ts";
import { CACHED_RESOURCES, RESOURCES } from "../shared/api/resources.ts";
import type { CachedResource } from "../shared/api/resources.ts";
import { replay } from "../shared/replay/replay.ts";
import type { ReplayedSync } from "../shared/replay/replay.ts";
import { consoleLog } from "./support/console-log.ts";
import { describeTrace } from "./support/describe.ts";
import { functionHandlers } from "./support/functions.ts";
import { printable, printableJson } from "./support/printable.ts";
import { readRecords } from "./support/read-records.ts";
import { Repeats } from "./support/repeats.ts";
import { wholeNumber } from "./support/usage-error.ts";

interface ReplayFlags {
  readonly seed: number;
  readonly all?: true;
  readonly json?: true;
  readonly verbose?: true;
}

/** Reasons shown of one sync; a thousand pods turning Ready are one line. */
const REASONS_MAX = 3;

export function registerReplay(program: Command): void {
  program
    .command("replay")
    .description("feed a capture through the functions under a virtual clock and show what each sync decides; sends nothing")
    .argument("<file>", "JSON Lines, gzip allowed")
    .option("--seed <n>", "seed of everything random", wholeNumber("--seed", { min: 0, max: 2 ** 31 }), 1)
    .option("--all", "also show syncs that decided nothing")
    .option("--json", "one JSON object per sync")
    .option("-v, --verbose", "log of the watcher and the functions, and what depended on an answer that a replay never gets")
    .action(runReplay);
}

async function runReplay(file: string, flags: ReplayFlags): Promise<void> {
  const records = readRecords(file);
  const told = new Telling(records[0]?.atMs ?? 0);
  const digest = createHash("sha256");
  const summary = await replay(records, {
    // Nothing leaves this process, and one seed shall give one output.
    digester: createDigester(`replay ${flags.seed}`.padEnd(32)),
    seed: flags.seed,
    log: consoleLog("", flags.verbose ? "info" : "error"),
    functions: functionHandlers,
    onSync: (sync) => {
      digest.update(`${printableJson(sync)}\n`);
      if (flags.json) process.stdout.write(`${printableJson(sync)}\n`);
      else process.stdout.write(told.of(sync, flags));
    },
  });
  const decisionDigest = digest.digest("hex");
  if (flags.json) return void process.stdout.write(`${JSON.stringify({ summary: { ...summary, decisionDigest } })}\n`);
  process.stdout.write(told.rest());
  const { objects } = summary;
  process.stdout.write(
    `\n${summary.syncs} syncs decided ${summary.decided} writes, none was sent.` +
      ` Cache at the end: ${CACHED_RESOURCES.map((resource) => `${objects[resource]} ${plural(resource)}`).join(", ")}` +
      `${summary.quarantined > 0 ? `, ${summary.quarantined} objects quarantined` : ""}.\nCache digest ${summary.cacheDigest}\nDecision digest of seed ${flags.seed} ${decisionDigest}\n`,
  );
}

/** As people write it: `ReplicaSets`, but `pods`. */
function plural(resource: CachedResource): string {
  return resource === "pods" ? resource : `${RESOURCES[resource].kind}s`;
}

/** One block per sync, folded where a key decides the same time and again. */
class Telling {
  readonly #startMs: number;
  readonly #repeats = new Repeats();

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  of(sync: ReplayedSync, { all, verbose }: Pick<ReplayFlags, "all" | "verbose">): string {
    const lines = decisionLines(sync, verbose === true);
    const when = this.#since(sync.atMs);
    const { isNews, before } = this.#repeats.next(name(sync), lines, when);
    if (all !== true && (!isNews || (lines === "" && before === undefined))) return "";
    const said = before === undefined || all ? "" : `${INDENT}${printable(name(sync))} ${before}\n`;
    if (lines === "" && all !== true) return said;
    return `${said}${clockTime(sync.atMs)} ${when} ${printable(`${name(sync)}: ${reasonsOf(sync)}`)}\n${lines}`;
  }

  rest(): string {
    return [...this.#repeats.rest()].map(([key, said]) => `${INDENT}${printable(key)} ${said}\n`).join("");
  }

  #since(atMs: number): string {
    return `+${((atMs - this.#startMs) / 1000).toFixed(3)}s`.padStart(9);
  }
}

const INDENT = " ".repeat(23);

function name({ controller, key }: ReplayedSync): string {
  return `${controller} ${key}`;
}

/** UTC, as the capture's own times are. */
function clockTime(atMs: number): string {
  return new Date(atMs).toISOString().slice(11, 23);
}

function reasonsOf({ reasons }: ReplayedSync): string {
  if (reasons.length === 0) return "a delay or a retry fell due";
  const more = reasons.length - REASONS_MAX;
  return reasons.slice(0, REASONS_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function decisionLines({ lines, error }: ReplayedSync, verbose: boolean): string {
  const undecided = lines.flatMap((line) => (line.kind === "notDecided" ? [line.what] : []));
  const said = [
    ...lines.filter(({ kind }) => kind !== "notDecided" && kind !== "reason").map(describeTrace),
    ...(verbose && undecided.length > 0 ? [`not decided: ${undecided.join(", ")}`] : []),
    ...(error === undefined ? [] : [`error: ${printable(error)}`]),
  ];
  return said.map((line) => `${INDENT}${line}\n`).join("");
}
