/**
 * `deltaloop explain`: prints a verdict on a workload of a capture or a running cluster: what is wrong, and why. With `--all`, also what
 * deltaloop's controllers decide at each step.
 */
import { statSync } from "node:fs";
import type { Command } from "commander";
import { UsageError } from "@deltaloop/base";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { FamilyCensus, StateCensus, verdictOf, worstFirst } from "@deltaloop/replay/explain";
import { allOf } from "./capture/all-of.ts";
import { openAnyRecords, sparingMemory } from "./capture/read-records.ts";
import { startupTimeoutOption } from "./cluster/startup.ts";
import { withDetails } from "./command/help.ts";
import { momentIn } from "./command/moment.ts";
import { recordedRelease, recordedReleaseOption } from "./capture/recorded-release.ts";
import type { RecordedReleaseFlag } from "./capture/recorded-release.ts";
import { explainLive } from "./explain/live.ts";
import type { LiveFlags } from "./explain/live.ts";
import type { Subject, Verdict } from "@deltaloop/replay/explain";
import { printWorst } from "./explain/print-worst.ts";
import { isObjectName, subjectIn, wantedBy } from "./explain/subject.ts";
import { goneText, verdictJson, verdictText } from "./explain/verdict-text.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";

interface ExplainFlags extends LiveFlags, RecordedReleaseFlag {
  readonly at?: string;
  readonly since?: string;
  readonly until?: string;
  readonly all?: true;
  readonly repeats?: true;
  readonly html?: string;
  readonly open?: true;
  /** False with --no-redact. */
  readonly redact: boolean;
  readonly force?: true;
  readonly output?: OutputFormat;
}

export function registerExplain(program: Command): void {
  const command = program
    .command("explain")
    .description("Explains what is wrong with a workload, and why its controllers act as they do.")
    .argument("[file]", "capture or recording, optionally gzip-compressed; - is standard input (default: the cluster of the kubeconfig)")
    .argument(
      "[object...]",
      "object as for kubectl: deploy/web, deploy web, deployment.apps/web, rs/web-7f8fb, rc/web or pod/web-7f8fb-x2x4z (default: all workloads, worst first)",
    )
    .option("-n, --namespace <name>", "namespace of the object")
    .option("--all", "print each change and decision with its reasons; without an object, include complete workloads")
    .option("--repeats", "with --all, print repeated syncs and repeated reasons too");
  addOutputOption(command, "the verdict, the summary and each change and sync")
    .optionsGroup("Captures:")
    .option("--until <time>", "explain the state at this time: +12.3s, 10:02:11.5 or 2026-03-01T10:02:11Z")
    .option("--since <time>", "skip earlier changes")
    .option("--at <time>", "as --until, and print the changes before and after this time")
    .addOption(recordedReleaseOption())
    .option("--html <page>", "also write a page with a timeline of the capture: one file that opens from disk and requests nothing")
    .option("--open", "serve that page locally and open a browser; with a cluster, keep the page up to date")
    .option("--no-redact", "with --html and --open, include messages and values that may be secret; only you can read the file")
    .option("--force", "overwrite a page that is not empty")
    .optionsGroup("Cluster access:")
    .option("--kubeconfig <file>", "kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .addOption(startupTimeoutOption())
    .option("-w, --watch", "print each change of the verdict until the rollout is complete or stuck")
    .action(runExplain);
  withDetails(command, {
    notes: [
      "Reads only.",
      "With a cluster, it needs permission to list Deployments, ReplicaSets and Pods; it uses Events, Nodes and quotas if it may list them.",
      "For one object in a cluster, exits with 1 if the object is stuck. For several objects or a capture, exits with 0, or with 1 if there is no workload.",
    ],
    examples: [
      "explain deploy/web -n shop",
      "explain --context prod deploy/web --watch",
      "explain rollout.jsonl.gz deploy/web",
      "explain rollout.jsonl.gz --html rollout.html",
      "explain --context prod -n shop --open",
      "explain rollout.jsonl.gz deploy web -n shop --at +12.3s",
    ],
  });
}

async function runExplain(first: string | undefined, words: readonly string[], flags: ExplainFlags): Promise<void> {
  const isLive = first === undefined || (flags.context ?? flags.kubeconfig) !== undefined || !isFile(first);
  if (!isLive) return explainFile(first, words.join("/"), flags);
  if (first !== undefined && isDirectory(first, words)) throw new UsageError(`${first} is a directory: name a capture file`);
  const object = [...(first === undefined ? [] : [first]), ...words].join("/");
  if (object === "" && (flags.context ?? flags.kubeconfig) === undefined)
    throw new UsageError("name a capture, an object of the cluster such as deploy/web, or the cluster with --context");
  const recorded = (["at", "since", "until", "repeats", "html"] as const).filter((name) => flags[name] !== undefined);
  if (recorded.length > 0) throw new UsageError(`--${recorded.join(", --")} needs a capture; ${first ?? ""} is not a file`);
  if (first !== undefined && /\.(?:jsonl|json|log|kshrk)(?:\.gz)?$/.test(first))
    throw new UsageError(`${first} cannot be read: no such file`);
  if (!flags.redact && !flags.open) throw new UsageError("--no-redact needs --html or --open");
  if (!flags.open) return explainLive(object, flags);
  const { openCluster } = await import("./explain/timeline/open-cluster.ts");
  return openCluster(object, flags);
}

/** Whether `path` is an existing path or standard input. */
function isFile(path: string): boolean {
  return path === "-" || statSync(path, { throwIfNoEntry: false })?.isDirectory() === false;
}

/** Whether `path` is a directory. False for an object such as `deploy/web` or `deploy web`, even if a directory has that name. */
function isDirectory(path: string, words: readonly string[]): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return false;
  return !isObjectName([path, ...words].join("/"));
}

async function explainFile(file: string, object: string, flags: ExplainFlags): Promise<void> {
  const { output, namespace } = flags;
  if (flags.watch === true) throw new UsageError(`--watch needs a running cluster; ${file} is a file`);
  const page = flags.html === undefined ? (flags.open ? "--open" : undefined) : "--html";
  if (flags.html === undefined && flags.force === true) throw new UsageError("--force needs --html");
  if (page === undefined && !flags.redact) throw new UsageError("--no-redact needs --html or --open");
  if (page !== undefined) {
    const partial = (["at", "since", "until", "all", "repeats", "output"] as const).find((name) => flags[name] !== undefined);
    if (partial !== undefined)
      throw new UsageError(`${page} shows the whole recording: remove --${partial}, and choose the time in the page`);
    const { explainPage } = await import("./explain/timeline/timeline.ts");
    return explainPage(file, object, flags);
  }
  const isStory = object !== "" && (flags.all === true || flags.at !== undefined || output !== undefined);
  if (isStory) sparingMemory(file);
  const wanted = object === "" ? undefined : wantedBy(object, namespace);
  const family = new FamilyCensus(wanted === undefined ? [] : [wanted]);
  const moment = flags.at ?? flags.until;
  const option = flags.at === undefined ? "--until" : "--at";
  const state = new StateCensus(createDigester("explain".padEnd(32), ALL_RELEASES), (startMs) =>
    moment === undefined ? Infinity : momentIn(option, moment, startMs, Infinity),
  );
  let read: Explanation | undefined;
  const end = (): void => void (read = explanationAt(state, family, { object, flags }));
  const capture = await openAnyRecords(file, allOf(family, state, { begin: () => undefined, see: () => undefined, end }), {
    skims: !isStory,
  });
  if (read === undefined) throw new Error("the capture has no records");
  const { verdicts, subject, nowMs, atMs } = read;
  if (subject === undefined) {
    printWorst(verdicts, file, flags);
    return output === undefined ? printPageHint(verdicts, file) : undefined;
  }
  const [verdict] = verdicts;
  if (!output) process.stdout.write(verdict === undefined ? goneText(subject, nowMs) : verdictText(verdict, { recorded: true }));
  else if (verdict !== undefined) process.stdout.write(objectText(verdictJson(verdict), output));
  if (!isStory) return printPageHint(verdicts, file);
  const { printStory } = await import("./explain/story.ts");
  const at = flags.at === undefined ? undefined : atMs;
  await printStory(capture, subject, {
    family: family.familyOf(subject),
    atMs: at,
    output,
    repeats: flags.repeats === true,
    release: recordedRelease(flags.kubernetes, capture),
  });
}

interface Explanation {
  /** Verdicts, worst first; if an object is requested, only the verdict on it, if any. */
  readonly verdicts: readonly Verdict[];
  readonly subject: Subject | undefined;
  readonly nowMs: number;
  readonly atMs: number | undefined;
}

interface Question {
  readonly object: string;
  readonly flags: ExplainFlags;
}

/** Called at the end of the read, which can be repeated until then (skim.ts SK2). Undefined for a capture without records. */
function explanationAt(state: StateCensus, family: FamilyCensus, { object, flags }: Question): Explanation | undefined {
  const { namespace, at, until, since } = flags;
  const { startMs, endMs } = state.span;
  if (startMs === Infinity) return undefined;
  const [option, moment] = at === undefined ? ["--until", until] : ["--at", at];
  const atMs = moment === undefined ? undefined : momentIn(option, moment, startMs, endMs);
  const sinceMs = since === undefined ? undefined : momentIn("--since", since, startMs, endMs);
  if (sinceMs !== undefined && atMs !== undefined && sinceMs > atMs) throw new UsageError(`--since ${since} is after ${option} ${moment}`);
  const subject = object === "" ? undefined : subjectIn(object, family, namespace);
  const cluster = state.state({ namespace: subject?.namespace ?? namespace });
  const verdict = subject && verdictOf(cluster, subject, { sinceMs });
  const verdicts = subject === undefined ? worstFirst(cluster) : verdict === undefined ? [] : [verdict];
  return { verdicts, subject, atMs, nowMs: cluster.nowMs };
}

/** If something is wrong, prints the command that draws the timeline. A file name that a shell would change is omitted. */
function printPageHint(verdicts: readonly Verdict[], file: string): void {
  if (verdicts.every(({ health }) => health === "complete") || !/^[\w./][\w./-]*$/.test(file)) return;
  process.stdout.write(`Timeline  deltaloop explain ${file} --html timeline.html\n`);
}
