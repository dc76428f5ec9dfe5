/** The command line of several verbs. Exit codes: 0 success, 1 failure, 2 usage or configuration error, 3 see `dev --act`, 4 see `watch`. */
import { Command } from "commander";
import { messageOf } from "@deltaloop/kube/objects";
import { ConfigurationError } from "@deltaloop/controllers/configuration";
import { VERSION, UsageError } from "@deltaloop/base";
import { printable } from "@deltaloop/base/output";
import { registerCompletion } from "./completion.ts";
import { configureHelp } from "./help.ts";
import { registerReference } from "./reference.ts";

/** Verbs by the heading of their group in the help. Each verb imports a lot, so only the verb that runs is loaded. */
export type Verbs = Readonly<Record<string, Readonly<Record<string, () => Promise<(program: Command) => void>>>>>;

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** Runs the verb that the command line names and sets the exit code. */
export async function runVerbs(groups: Verbs): Promise<void> {
  const program = configureHelp(new Command("deltaloop"))
    .description("Runs the Kubernetes workload controllers as serverless, event-driven functions.")
    .version(`deltaloop ${VERSION}`, "-V, --version", "print the version")
    // In `capture fetch -o FILE` the option belongs to `fetch`.
    .enablePositionalOptions()
    .configureOutput({
      outputError: (text) =>
        reportError(
          text
            .trimEnd()
            .replace(/^error: /, "")
            .replace("\n(", " ("),
        ),
    })
    .exitOverride();

  // A reader such as `head` may close the pipe early, which is not an error.
  process.stdout.on("error", endWithoutReader);
  process.stderr.on("error", () => undefined); // the command continues without a log

  try {
    const args = process.argv.slice(2);
    for (const [heading, verbs] of Object.entries(groups))
      for (const [verb, load] of Object.entries(verbs)) {
        program.commandsGroup(heading);
        if (isLoaded(verb, args)) (await load())(program);
        else program.command(verb); // for suggestions
      }
    registerCompletion(program.commandsGroup("Other commands:").helpCommand("help [command]", "Shows the help of a command."));
    registerReference(program);
    await program.parseAsync(misspelled(program, args), { from: "user" });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

/** Whether to load a verb although it does not run: help, completion scripts and the reference list the options of all verbs. */
function isLoaded(verb: string, [first = "help", second = "help"]: readonly string[]): boolean {
  const named = first === "help" ? second : first;
  return named === verb || ["help", "-h", "--help", "completion", "reference"].includes(named);
}

/**
 * For `explian --help` and `help explian` commander would show the general help, so only the name is parsed, which yields its error with a
 * suggestion.
 */
function misspelled(program: Command, args: readonly string[]): readonly string[] {
  const name = args[0] === "help" ? (args[1] ?? "help") : (args[0] ?? "");
  return name === "" || name === "help" || name.startsWith("-") || program.commands.some((one) => one.name() === name) ? args : [name];
}

function endWithoutReader(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(0);
  reportError(`cannot write to standard output: ${error.message}`);
  process.exit(EXIT_FAILED);
}

/** Reports every error that ends a verb: one line per problem, as `deltaloop: MESSAGE`. */
function reportError(text: string): void {
  for (const line of text.split("\n")) process.stderr.write(`deltaloop: ${printable(line)}\n`);
}

function exitCodeOf(error: unknown): number {
  if (error instanceof Error && "exitCode" in error && typeof error.exitCode === "number") return error.exitCode === 0 ? 0 : EXIT_USAGE; // commander has already printed this error
  reportError(messageOf(error));
  return error instanceof UsageError || error instanceof ConfigurationError ? EXIT_USAGE : EXIT_FAILED;
}
