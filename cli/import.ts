/** `deltaloop import FILE… -o OUT`: makes a capture of what another tool recorded. */
import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { createDigester } from "../shared/api/digest.ts";
import { messageOf } from "../shared/api/errors.ts";
import { CaptureError } from "../shared/replay/capture.ts";
import { importFiles } from "../shared/replay/import/import.ts";
import { captureLines } from "../shared/replay/import/imported.ts";
import type { Imported } from "../shared/replay/import/imported.ts";
import { ImportReport } from "../shared/replay/import/report.ts";
import { CaptureFile } from "./support/capture-file.ts";
import { sparingMemory } from "./support/read-records.ts";
import { UsageError } from "./support/usage-error.ts";

interface ImportFlags {
  readonly output: string;
  readonly redact: boolean;
}

export function registerImport(program: Command): void {
  program
    .command("import")
    .description("make a capture of what another tool recorded, and say what was lost and what was invented")
    .argument(
      "<file...>",
      "what `kubectl get RESOURCE --watch --output-watch-events -o json` printed (a file for each resource), an audit log of level RequestResponse, a k8shark archive (.kshrk), or messages of the delta queue as `aws sqs receive-message` prints them, dead letters too; gzip allowed; up to 16 GiB unpacked and a million objects, of an archive 256 MiB",
    )
    .requiredOption("-o, --output <file>", "JSON Lines; compressed when the name ends in .gz")
    .option("--no-redact", "whole objects, with pod templates and env values, in a file for you alone; without it they are stripped")
    .action(runImport);
}

async function runImport(files: readonly string[], { output, redact }: ImportFlags): Promise<void> {
  const [first = ""] = files;
  sparingMemory(first);
  const report = new ImportReport();
  const imported = await readFiles(files, report);
  if (imported.format === "queue" && !redact)
    throw new UsageError("--no-redact: messages of the queue hold stripped objects; there is nothing whole in them");
  const file = new CaptureFile(output, { isWhole: !redact }, 0);
  const digester = createDigester(randomBytes(32).toString("hex"));
  for (const line of captureLines(imported, { digester, redact, report })) {
    if (!file.write(line)) await file.drained();
    if (file.error) break;
  }
  await file.end();
  if (file.error) throw file.error;
  const listed = [...imported.lists.values()].reduce((sum, { items }) => sum + items.length, 0);
  process.stdout.write(`${output}: ${listed} objects at the beginning and ${imported.events.length} events, read as ${imported.format}\n`);
  for (const line of report.lines()) process.stdout.write(`${line}\n`);
}

async function readFiles(files: readonly string[], report: ImportReport): Promise<Imported> {
  try {
    return await importFiles(files, report);
  } catch (error) {
    if (error instanceof CaptureError) throw new UsageError(error.message);
    throw new UsageError(`${files.join(", ")} cannot be read: ${messageOf(error)}`);
  }
}
