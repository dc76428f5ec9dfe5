/** `deltaloop capture -o FILE`: records what a watcher sees, for replays. Reads only. */
import { randomBytes } from "node:crypto";
import { Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { lookingAtRelease } from "@deltaloop/controllers/cache";
import { createClient, createWatch } from "@deltaloop/kube/http";
import { createSystemClock } from "@deltaloop/base/system";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { messageOf } from "@deltaloop/kube/objects";
import { recordingWatch } from "@deltaloop/replay/capture";
import { CaptureFile } from "./capture/capture-file.ts";
import { registerFetch } from "./capture/fetch.ts";
import { registerSend } from "./capture/send.ts";
import { consoleLog } from "@deltaloop/base/output";
import { kubeHttpConfigFrom, kubeconfigPath } from "@deltaloop/kube/kubeconfig";
import { readApiServer } from "./cluster/api-server.ts";
import { startupTimeoutOption, untilListed } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { untilSignalled } from "@deltaloop/local/processes";
import { bytes, duration, UsageError, wholeNumber } from "@deltaloop/base";
import { beginWithSmallYoungHeap } from "./nodejs/young-heap.ts";
import { recordedUpgrades } from "./capture/recorded-upgrades.ts";
import { watchAll, watchEvidence } from "./capture/watch-all.ts";

interface CaptureFlags extends StartupFlags {
  readonly output?: string;
  readonly namespace?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly redact: boolean;
  readonly rotateSize?: number;
  readonly rotateEvery?: number;
  readonly keep?: number;
  readonly force?: true;
  readonly continue?: true;
}

/** Interval of flushes. Flushed lines are readable even after SIGKILL. */
const FLUSH_MS = 1_000;
/**
 * A rotated capture keeps all objects and may share a node with pods, so V8 collects garbage early, which by default it does late, and little
 * is read ahead. Sizes of `--max-semi-space-size` are in MiB.
 */
const THIRD_MIB = 1;
const SMALL_HEAP = ["--heap-growing-percent=10", "--optimize-for-size"];
/** Enough for a burst of 3,000 events of pods: a watcher reads four times as much ahead. */
const READ_AHEAD_BYTES = 16 * 2 ** 20;
/** Below this size, a file could be full before it contains all existing objects. */
const ROTATE_BYTES_MIN = 2 ** 20;

export function registerCapture(program: Command): void {
  const capture = program.command("capture");
  registerFetch(capture);
  registerSend(capture);
  withDetails(
    capture
      .description("Records the workloads of a cluster, and the objects that explain incidents.")
      .option("-o, --output <file>", "JSON Lines file to write, gzip if the name ends in .gz; - is standard output")
      .option("--force", "overwrite files that are not empty")
      .option("--no-redact", "record unredacted objects, including env values, in a file that only you can read")
      .option("-n, --namespace <name>", "record this namespace alone (default: all)")
      .optionsGroup("Cluster access:")
      .option("--kubeconfig <file>", "kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
      .option("--context <name>", "context of the kubeconfig")
      .addOption(startupTimeoutOption())
      .optionsGroup("Rotation:")
      .option(
        "--rotate-size <size>",
        "start the next file (NAME.0002.jsonl.gz, …) after this size before compression, such as 64Mi",
        bytes("--rotate-size", ROTATE_BYTES_MIN),
      )
      .option("--rotate-every <duration>", "start the next file after this time, such as 10m0s", duration("--rotate-every"))
      .option("--keep <n>", "keep the newest n files", wholeNumber("--keep", { min: 1, max: 9_999 }))
      .addOption(new Option("--continue", "add to the files of an earlier run, and count them in --keep").conflicts("force"))
      .action(runCapture),
    {
      notes: [
        "Records Deployments, ReplicaSets, ReplicationControllers and Pods; where allowed, Events, Nodes, HorizontalPodAutoscalers, PodDisruptionBudgets and ResourceQuotas.",
        "Reads only, until Ctrl-C. The file is readable while it grows.",
      ],
      examples: ["capture -o rollout.jsonl.gz", "capture -o day.jsonl.gz --rotate-every 1h0m0s --keep 24"],
    },
  );
}

async function runCapture(flags: CaptureFlags): Promise<void> {
  const { output, redact, rotateSize, rotateEvery, keep } = flags;
  if (output === undefined) throw new UsageError("name the file to write with -o FILE");
  const rotates = rotateSize !== undefined || rotateEvery !== undefined;
  if (rotates) beginWithSmallYoungHeap(THIRD_MIB, ...SMALL_HEAP);
  if (keep !== undefined && !rotates) throw new UsageError("--keep needs --rotate-size or --rotate-every");
  if (flags.continue && !rotates) throw new UsageError("--continue needs --rotate-size or --rotate-every");
  if (rotateEvery === 0) throw new UsageError("--rotate-every must be longer than 0s");
  const config = await kubeHttpConfigFrom(kubeconfigPath(flags.kubeconfig), {
    component: "capture",
    ...(flags.context !== undefined && { context: flags.context }),
  }).catch((error: unknown) => {
    throw new UsageError(messageOf(error));
  });
  const log = consoleLog("", "info");
  const clock = createSystemClock();
  const rotation = {
    ...(rotateSize !== undefined && { rotateBytes: rotateSize }),
    ...(rotateEvery !== undefined && { rotateMs: rotateEvery }),
    ...(keep !== undefined && { keep }),
    ...(flags.force && { existing: "overwritten" as const }),
    ...(flags.continue && { existing: "continued" as const }),
  };
  const file = new CaptureFile(output, { isWhole: !redact, ...rotation }, clock.now());
  const digester = createDigester(randomBytes(32).toString("hex"), ALL_RELEASES);
  let lines = 0;
  const write = (line: string): void => {
    lines++;
    file.write(line);
  };
  const signalled = untilSignalled();
  const client = createClient({ ...config, ...(rotates && { readAheadBytesMax: READ_AHEAD_BYTES }) });
  const source = createWatch(client, flags.namespace);
  await untilListed(config, flags, log, signalled);
  const { gitVersion: kubernetes } = await readApiServer(client).catch(() => ({ gitVersion: undefined })); // the user may lack permission to read the version
  const kube = recordingWatch(source, {
    ...{ write, clock, digester, raw: !redact, keeps: rotates, yieldsVersions: true, server: config.server, kubernetes },
    room: () => file.room(),
  });
  const ends = new AbortController();
  const ended = AbortSignal.any([signalled, ends.signal]);
  log.info(
    `capturing ${flags.namespace === undefined ? "all namespaces" : `namespace ${flags.namespace}`} of ${config.server} into ${file.path}${redact ? "" : ", unredacted objects with all their secrets"}; stop with Ctrl-C`,
  );
  const read = async (): Promise<string> => (await readApiServer(client)).gitVersion;
  const looking = lookingAtRelease(kube, recordedUpgrades(read, kube, kubernetes));
  const watching = Promise.all([watchAll(looking, { clock, log }, ended), watchEvidence(kube, { clock, log }, ended)]);
  while (!ended.aborted) {
    await clock.after(FLUSH_MS, ended).catch(() => undefined);
    file.flush();
    if (file.error) ends.abort(file.error);
    else if (!kube.isListing && file.isFull(clock.now())) {
      file.next(clock.now());
      await kube.restart();
      await file.settled();
      log.info(`continuing in ${file.path}`);
    }
  }
  await watching;
  await file.end();
  if (file.error) throw file.error;
  log.info(`${lines} lines written`);
}
