/** `deltaloop capture -o FILE`: writes down what a watcher would see, for replays. Reads only. */
import { randomBytes } from "node:crypto";
import { createGzip } from "node:zlib";
import { finished } from "node:stream/promises";
import type { Command } from "commander";
import { createKubeHttp } from "../shared/adapters/kube-http/kube-http.ts";
import { createSystemClock } from "../shared/adapters/system/clock.ts";
import { createDigester } from "../shared/api/digest.ts";
import { CACHED_RESOURCES } from "../shared/api/resources.ts";
import { kubeHttpConfigFrom } from "./support/kubeconfig.ts";
import { recordingWatch } from "../shared/replay/recorder.ts";
import { openCapture } from "./support/capture-file.ts";
import { consoleLog } from "./support/console-log.ts";
import { kubeconfigPath } from "./support/kubeconfig-path.ts";
import { untilSignalled } from "./support/signals.ts";
import { UsageError } from "./support/usage-error.ts";
import { watchAll } from "./support/watch-all.ts";
import { messageOf } from "../shared/api/errors.ts";

interface CaptureFlags {
  readonly output: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly raw?: true;
}

export function registerCapture(program: Command): void {
  program
    .command("capture")
    .description("record what a watcher sees of Deployments, ReplicaSets, ReplicationControllers and Pods until interrupted")
    .requiredOption("-o, --output <file>", "JSON Lines; compressed when the name ends in .gz")
    .option("--kubeconfig <file>", "default: KUBECONFIG, then ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig")
    .option("--raw", "whole objects, with pod templates and env values, in a file for you alone; without it they are stripped")
    .action(runCapture);
}

async function runCapture(flags: CaptureFlags): Promise<void> {
  const config = await kubeHttpConfigFrom(kubeconfigPath(flags.kubeconfig), {
    component: "capture",
    ...(flags.context !== undefined && { context: flags.context }),
  }).catch((error: unknown) => {
    throw new UsageError(messageOf(error));
  });
  const log = consoleLog("", "info");
  const file = (await openCapture(flags.output, { raw: flags.raw === true })).createWriteStream();
  const out = flags.output.endsWith(".gz") ? createGzip() : file;
  if (out !== file) out.pipe(file);
  const digester = createDigester(randomBytes(32).toString("hex"));
  let events = 0;
  const write = (line: string): void => {
    events++;
    out.write(`${line}\n`);
  };
  const clock = createSystemClock();
  const kube = recordingWatch(createKubeHttp(config), { write, clock, digester, raw: flags.raw === true, server: config.server });
  const ends = untilSignalled();
  log.info(
    `capturing ${CACHED_RESOURCES.join(", ")} of ${config.server} into ${flags.output}${flags.raw ? ", whole objects with everything secret in them" : ""}; Ctrl-C ends it`,
  );
  await watchAll(kube, { clock, digester, log }, ends);
  out.end();
  await finished(file);
  log.info(`${events} lines written`);
}
