#!/usr/bin/env node
/** The deltaloop command: one verb, one file. Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 see `dev --act`. */
import { Command } from "commander";
import { ConfigurationError } from "../shared/lambda/configuration.ts";
import { printable } from "./support/printable.ts";
import { UsageError } from "./support/usage-error.ts";
import { beginWithSmallYoungHeap } from "./support/young-heap.ts";
import { messageOf } from "../shared/api/errors.ts";

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** Each verb brings its own world along, so only the one that is meant is loaded. */
const VERBS: Readonly<Record<string, () => Promise<(program: Command) => void>>> = {
  demo: async () => (await import("./demo.ts")).registerDemo,
  dev: async () => (await import("./dev.ts")).registerDev,
  watch: async () => (await import("./watch.ts")).registerWatch,
  capture: async () => (await import("./capture.ts")).registerCapture,
  import: async () => (await import("./import.ts")).registerImport,
  replay: async () => (await import("./replay.ts")).registerReplay,
  explain: async () => (await import("./explain.ts")).registerExplain,
  shadow: async () => (await import("./shadow.ts")).registerShadow,
  host: async () => (await import("./host.ts")).registerHost,
  node: async () => (await import("./node.ts")).registerNode,
  keys: async () => (await import("./keys.ts")).registerKeys,
  doctor: async () => (await import("./doctor.ts")).registerDoctor,
  queue: async () => (await import("./queue.ts")).registerQueue,
};

const program = new Command("deltaloop")
  .description("Kubernetes' workload controllers as serverless, event-driven functions")
  .showHelpAfterError("(deltaloop help shows what there is)")
  .exitOverride();

// Whoever read us has seen enough (`replay FILE | head`): no error of ours, and nothing more to say.
process.stdout.on("error", endQuietly);
process.stderr.on("error", () => undefined); // what still runs goes on without a log

try {
  if (process.argv[2] === "node") beginWithSmallYoungHeap();
  const verb = VERBS[process.argv[2] ?? ""];
  for (const load of verb ? [verb] : Object.values(VERBS)) (await load())(program);
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}

function endQuietly(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof ConfigurationError) {
    for (const line of error.message.split("\n")) process.stderr.write(`deltaloop: ${printable(line)}\n`);
    return EXIT_USAGE;
  }
  if (error instanceof Error && "exitCode" in error && typeof error.exitCode === "number") return error.exitCode === 0 ? 0 : EXIT_USAGE; // commander has printed it
  process.stderr.write(`deltaloop: ${printable(messageOf(error))}\n`);
  return EXIT_FAILED;
}
