/** A command of several verbs. Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 see `dev --act`. */
import { Command } from "commander";
import { messageOf } from "@deltaloop/kube/objects";
import { ConfigurationError } from "@deltaloop/controllers/configuration";
import { VERSION, UsageError } from "@deltaloop/base";
import { printable } from "@deltaloop/base/output";

/** Each verb brings its own world along, so only the one that is meant is loaded. */
export type Verbs = Readonly<Record<string, () => Promise<(program: Command) => void>>>;

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** Does what the command line says, and sets the exit code. */
export async function runVerbs(verbs: Verbs): Promise<void> {
  const program = new Command("deltaloop")
    .description("Kubernetes' workload controllers as serverless, event-driven functions")
    .version(`deltaloop ${VERSION}`, "-V, --version", "print which version this is")
    .showHelpAfterError("(deltaloop help shows what there is)")
    .exitOverride();

  // Whoever read us has seen enough (`replay FILE | head`): no error of ours, and nothing more to say.
  process.stdout.on("error", endUnheard);
  process.stderr.on("error", () => undefined); // what still runs goes on without a log

  try {
    const [, , name = ""] = process.argv;
    const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
    for (const load of verb ? [verb] : Object.values(verbs)) (await load())(program);
    await program.parseAsync();
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

function endUnheard(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(0);
  process.stderr.write(`deltaloop: standard output cannot be written: ${printable(error.message)}\n`);
  process.exit(EXIT_FAILED);
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
