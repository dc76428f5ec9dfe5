/**
 * `deltaloop capture fetch`: copies the last hour of the capture from the pod of infra/manifests-capture. Runs `kubectl exec`, with the
 * permissions and credential plugins of kubectl's user.
 */
import { spawn } from "node:child_process";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Command } from "commander";
import { duration, UsageError } from "@deltaloop/base";
import { consoleLog } from "@deltaloop/base/output";
import { messageOf } from "@deltaloop/kube/objects";
import { linesOf } from "@deltaloop/replay/capture";
import { withDetails } from "../command/help.ts";
import { CaptureFile } from "./capture-file.ts";

interface FetchFlags {
  readonly output: string;
  readonly last?: number;
  readonly earlier?: true;
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** The same values as in infra/manifests-capture and its image. */
const [NAMESPACE, POD, CONTAINER, RING] = ["deltaloop-capture", "deltaloop-capture-0", "capture", "/captures/ring.jsonl.gz"];
const PROGRAM = ["/usr/bin/node", "/usr/lib/deltaloop/deltaloop.mjs"];
const NOTES_MAX = 3;
const HOUR_MS = 3_600_000;

export function registerFetch(capture: Command): void {
  withDetails(
    capture
      .command("fetch")
      .description("Copies the last hour of the capture from the pod of infra/manifests-capture.")
      .requiredOption("-o, --output <file>", "capture to write or replace")
      .option("--last <duration>", "only files written within this duration (default: 1h0m0s)", duration("--last"))
      .option("--earlier", "fetch the run before the last restart of the container")
      .optionsGroup("Cluster access:")
      .option("--kubeconfig <file>", "kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
      .option("--context <name>", "context of the kubeconfig")
      .option("-n, --namespace <name>", "namespace of the pod", NAMESPACE)
      .action(runFetch),
    {
      notes: ["Runs kubectl exec: you need kubectl and permission to create pods/exec."],
      examples: ["capture fetch --context prod -o incident.jsonl.gz"],
      docs: "docs/guides/incident.md",
    },
  );
}

async function runFetch(flags: FetchFlags): Promise<void> {
  const { output } = flags;
  const file = new CaptureFile(output, { isWhole: true, existing: "replaced" }, 0);
  const { lines, notes } = await fetchInto(file, flags).catch(async (error: unknown) => {
    await file.discard();
    throw error;
  });
  await file.end();
  if (file.error) throw file.error;
  const log = consoleLog("", "info");
  if (notes !== "") log.warn(notes);
  log.info(`${lines} lines written to ${output}; read them with deltaloop explain ${output}`);
}

async function fetchInto(file: CaptureFile, flags: FetchFlags): Promise<{ readonly lines: number; readonly notes: string }> {
  const kubectl = spawn("kubectl", execArguments(flags), { stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  kubectl.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const exited = new Promise<number | null>((resolve, reject) => kubectl.once("close", resolve).once("error", reject));
  const written = writeLines(
    pipeline(kubectl.stdout, createGunzip(), () => undefined),
    file,
  );
  const [exit, lines] = await Promise.allSettled([exited, written]);
  if (exit.status === "rejected") throw new UsageError(`kubectl cannot be run: ${messageOf(exit.reason)}`);
  const notes = stderr.trim().split("\n").slice(0, NOTES_MAX).join("; ").replaceAll("deltaloop: ", "");
  if (exit.value !== 0) throw new Error(`kubectl exec failed; nothing is written: ${notes}`);
  if (lines.status === "rejected")
    throw new Error(`the data of kubectl exec is not complete; nothing is written: ${messageOf(lines.reason)}`);
  return { lines: lines.value, notes };
}

function execArguments({ namespace, kubeconfig, context, last = HOUR_MS, earlier }: FetchFlags): readonly string[] {
  const access = [
    ...(kubeconfig === undefined ? [] : ["--kubeconfig", kubeconfig]),
    ...(context === undefined ? [] : ["--context", context]),
  ];
  const verb = ["capture", "send", RING, `--last=${last}ms`, ...(earlier ? ["--earlier"] : [])];
  return [...access, "exec", "-n", namespace, POD, "-c", CONTAINER, "--", ...PROGRAM, ...verb];
}

/** Writes the lines to `file`. @returns their number. @throws {Error} when the compressed data ends early */
async function writeLines(bytes: AsyncIterable<Buffer>, file: CaptureFile): Promise<number> {
  let number = 0;
  for await (const lines of linesOf(bytes, "kubectl exec"))
    for (const { text } of lines) {
      number++;
      if (!file.write(text)) await file.drained();
      if (file.error) throw file.error;
    }
  return number;
}
