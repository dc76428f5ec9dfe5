/** `deltaloop import FILE… -o OUT`: converts recordings of other tools to a capture. */
import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError } from "@deltaloop/replay/capture";
import { importFiles, captureLines, ImportReport } from "@deltaloop/replay/import";
import type { Imported } from "@deltaloop/replay/import";
import { CaptureFile, isSameFile, isStandardOutput } from "./capture/capture-file.ts";
import { sparingMemory } from "./capture/read-records.ts";
import { untilSignalled } from "@deltaloop/local/processes";
import { withProgress } from "./output/terminal.ts";
import { UsageError } from "@deltaloop/base";

interface ImportFlags {
  readonly output: string;
  readonly redact: boolean;
}

export function registerImport(program: Command): void {
  withDetails(
    program
      .command("import")
      .description("Converts recordings of kubectl, the audit log, k8shark or SQS into a capture.")
      .argument(
        "<file...>",
        "files to read, optionally gzip-compressed; up to 16 GiB unpacked and a million objects, an archive up to 256 MiB",
      )
      .requiredOption("-o, --output <file>", "JSON Lines file to write, gzip if the name ends in .gz; - is standard output")
      .option("--no-redact", "keep unredacted objects, including env values, in a file that only you can read")
      .action(runImport),
    {
      notes: [
        "Reads the output of `kubectl get RESOURCE --watch --output-watch-events -o json` (one file for each resource), an audit log of level RequestResponse (also as AKS and CloudWatch export it), a k8shark archive (.kshrk), and messages of the delta queue or its dead-letter queue as `aws sqs receive-message` prints them.",
        "Prints what the recording lacks and what was assumed instead. Replaces an existing file at the end.",
      ],
      examples: ["import audit.log -o incident.jsonl.gz", "import pods.json deployments.json replicasets.json -o incident.jsonl.gz"],
    },
  );
}

async function runImport(files: readonly string[], { output, redact }: ImportFlags): Promise<void> {
  const [first = ""] = files;
  sparingMemory(first);
  for (const file of files) if (isSameFile(file, output)) throw new UsageError(`-o ${output} is the input ${file}: choose another name`);
  const report = new ImportReport();
  const imported = await readFiles(files, report);
  if (imported.format === "queue" && !redact)
    throw new UsageError("--no-redact: messages of the queue have stripped objects only; leave it out");
  const file = new CaptureFile(output, { isWhole: !redact, existing: "replaced" }, 0);
  const interrupted = untilSignalled();
  const digester = createDigester(randomBytes(32).toString("hex"), ALL_RELEASES);
  for (const line of captureLines(imported, { digester, redact, report })) {
    if (!file.write(line)) await file.drained();
    if (file.error || interrupted.aborted) break;
  }
  if (interrupted.aborted) await file.discard();
  else await file.end();
  if (file.error) throw file.error;
  if (interrupted.aborted) throw new Error(`${output} is not complete: ${messageOf(interrupted.reason)}`);
  const listed = [...imported.lists.values()].reduce((sum, { items }) => sum + items.length, 0);
  const [out, where] = isStandardOutput(output) ? [process.stderr, "standard output"] : [process.stdout, output];
  out.write(`${where}: ${listed} initial objects and ${imported.events.length} events, read as ${imported.format}\n`);
  for (const line of report.lines()) out.write(`${line}\n`);
}

async function readFiles(files: readonly string[], report: ImportReport): Promise<Imported> {
  try {
    return await withProgress(`Reading ${files.join(", ")}`, importFiles(files, report));
  } catch (error) {
    if (error instanceof CaptureError) throw new UsageError(error.message);
    throw new UsageError(`${files.join(", ")} cannot be read: ${messageOf(error)}`);
  }
}
