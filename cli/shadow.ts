/** `deltaloop shadow [FILE]`: compares the writes of upstream's controllers with those that deltaloop's controllers would make. */
import { randomBytes } from "node:crypto";
import { Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import { createClient, createWatch, kubeOver } from "@deltaloop/kube/http";
import type { KubeClient } from "@deltaloop/kube/http";
import type { Kind } from "@deltaloop/timeline/input";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import type { PrometheusMetrics } from "@deltaloop/base/prometheus";
import { createSystemClock } from "@deltaloop/base/system";
import { CONTROLLER_INFO, CONTROLLERS, messageOf, RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { knownRelease, recordedRelease, recordedReleaseOption } from "./capture/recorded-release.ts";
import type { RecordedReleaseFlag } from "./capture/recorded-release.ts";
import { readApiServer } from "./cluster/api-server.ts";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { Log } from "@deltaloop/base";
import { RecordReader, openBytes, recordingWatch } from "@deltaloop/replay/capture";
import type { Capture } from "@deltaloop/replay/capture";
import { auditEventsIn, ImportReport } from "@deltaloop/replay/import";
import { LiveShadow, changesIn, MissingCensus, RecordedShadow, nearestDifferences, labelOf, writesOfAudit } from "@deltaloop/replay/shadow";
import type { SyncPlace, Finding, UpstreamWrite } from "@deltaloop/replay/shadow";
import { consoleLog, printable } from "@deltaloop/base/output";
import { kubeHttpConfigFrom, kubeconfigPath } from "@deltaloop/kube/kubeconfig";
import { since } from "./command/moment.ts";
import { openRecords, reading, sparingMemory } from "./capture/read-records.ts";
import { ShadowCount, VERDICTS } from "./shadow/shadow-count.ts";
import type { LivePage } from "./explain/timeline/open-page.ts";
import { startupTimeoutOption, untilListed } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { untilSignalled } from "@deltaloop/local/processes";
import { SYNC_HANDLERS } from "./functions/sync-handlers.ts";
import { serveMetrics, METRICS_LISTEN } from "./health/metrics-server.ts";
import { UsageError } from "@deltaloop/base";
import { watchAll, watchEvidence } from "./capture/watch-all.ts";

interface ShadowFlags extends StartupFlags, RecordedReleaseFlag {
  readonly capture?: string;
  readonly audit?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly metrics?: string;
  readonly all?: true;
  readonly open?: true;
  readonly output?: OutputFormat;
}

/** Limit of differences printed for one write. */
const DIFFERENCES_MAX = 12;
const EXIT_DIFFERS = 1;
/** Interval of the comparison. */
const LOOK_MS = 500;

export function registerShadow(program: Command): void {
  const command = program
    .command("shadow")
    .description("Compares each write of upstream's controllers with what deltaloop's would have written.")
    .argument(
      "[file]",
      "unredacted capture (`capture --no-redact`), up to 24 hours, 16 GiB unpacked and 256 MiB of objects at a time (default: watch the cluster of the kubeconfig until Ctrl-C)",
    )
    .addOption(new Option("--capture <file>", "same as the argument").hideHelp())
    .option("--audit <file>", "the API server's audit log of the same period, level RequestResponse; identifies the client of each write")
    .option("--all", "also print writes that match deltaloop's")
    .option("--open", "with a cluster: serve a live view of changes and verdicts on a local web page")
    .addOption(recordedReleaseOption());
  addOutputOption(command, "one object per write")
    .optionsGroup("Cluster access:")
    .option("--kubeconfig <file>", "kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .addOption(startupTimeoutOption())
    .option("--metrics <host:port>", `address of the metrics server; port 0 selects a free port (default: ${METRICS_LISTEN})`)
    .action(runShadow);
  withDetails(command, {
    notes: ["Reads only. Exits with 1 when a write differs."],
    examples: ["shadow", "shadow rollout.jsonl.gz --audit audit.log", "shadow rollout.jsonl.gz --all -o json"],
  });
}

async function runShadow(named: string | undefined, flags: ShadowFlags): Promise<void> {
  const file = fileOf(named, flags);
  const { all = false, output } = flags;
  const log = consoleLog("", "info");
  const digester = createDigester(randomBytes(32).toString("hex"), ALL_RELEASES);
  const options = { name: file ?? "the API server", digester, malformed: (what: string) => log.warn(`skipped: ${printable(what)}`) };
  const metrics = createPrometheusMetrics("shadow");
  const count = new ShadowCount(metrics);
  const print = (finding: Finding, startMs: number): void => {
    count.take(finding);
    if (!output) process.stdout.write(findingText(finding, startMs, all));
    else if (finding.kind === "write" || finding.ours.length > 0) process.stdout.write(objectText(asJson(finding), output));
  };
  if (file === undefined) await besideUpstream(flags, options, { log, digester, metrics, print });
  else {
    sparingMemory(file);
    const census = new MissingCensus();
    const capture = await openRecords(file, census);
    const { handlers, blind } = judged(census.missing);
    const { audit } = flags;
    const audited = audit === undefined ? undefined : auditedIn(audit, capture, log);
    const release = recordedRelease(flags.kubernetes, capture);
    const recorded = new RecordedShadow({ handlers, digester, ...(release && { release }) }, { audited });
    await reading(file, async () => {
      let isFirst = true;
      for await (const batch of changesIn(capture, options)) {
        // Printed after the first batch, so that an invalid capture is reported in one line.
        if (isFirst && blind !== undefined) log.warn(blind);
        isFirst = false;
        for await (const finding of recorded.take(batch)) print(finding, capture.startMs);
      }
    });
  }
  process.stdout.write(output ? objectText({ summary: count.summary() }, output) : count.lines());
  if (count.differs) process.exitCode = EXIT_DIFFERS;
}

/** Returns the capture's path; undefined for a cluster. @throws {UsageError} for two files, or a file with options for a cluster */
function fileOf(named: string | undefined, flags: ShadowFlags): string | undefined {
  if (named !== undefined && flags.capture !== undefined) throw new UsageError("pass one capture: FILE or --capture FILE");
  const file = named ?? flags.capture;
  const idle = (["kubeconfig", "context", "metrics", "open"] as const).filter((name) => flags[name] !== undefined);
  if (file !== undefined && idle.length > 0) throw new UsageError(`a capture needs no cluster access: remove --${idle.join(", --")}`);
  return file;
}

interface ShadowOutput {
  readonly log: Log;
  readonly digester: Digester;
  readonly metrics: PrometheusMetrics;
  readonly print: (finding: Finding, startMs: number) => void;
}

async function besideUpstream(
  flags: ShadowFlags,
  options: ConstructorParameters<typeof LiveShadow>[1],
  { log, digester, metrics, print }: ShadowOutput,
): Promise<void> {
  if (flags.audit !== undefined) throw new UsageError("--audit needs a capture of the same period: pass its file");
  if (flags.kubernetes !== undefined)
    throw new UsageError("--kubernetes applies to a capture; a cluster's release is read from its API server");
  const config = await kubeHttpConfigFrom(kubeconfigPath(flags.kubeconfig), {
    component: "shadow",
    ...(flags.context !== undefined && { context: flags.context }),
  }).catch((error: unknown) => {
    throw new UsageError(messageOf(error));
  });
  const ends = untilSignalled();
  await untilListed(config, flags, log, ends);
  const client = createClient(config);
  const { gitVersion } = await readApiServer(client);
  const release = knownRelease(gitVersion);
  const live = new LiveShadow({ handlers: SYNC_HANDLERS, digester, release: () => release }, options);
  const clock = createSystemClock();
  const write = (line: string): void => {
    const record = new RecordReader(config.server, 1, () => undefined).record(line, 1, false);
    if (record) live.hear(record);
  };
  const page = flags.open && (await opened(client, config.server, flags, log));
  const source = page ? page.kube : kubeOver(client);
  const kube = recordingWatch(source, { write, clock, digester, raw: true, server: config.server });
  const metricsServer = await serveMetrics({ listen: flags.metrics ?? METRICS_LISTEN, metrics, livez: [], readyz: [], log });
  const startMs = clock.now();
  log.info(`comparing with the controllers of ${config.server}, by list and watch only; stop with Ctrl-C`);
  const watching = Promise.all([
    watchAll(kube, { clock, log }, ends),
    ...(page ? [watchEvidence(page.kube, { clock, log }, ends), page.show(ends)] : []),
  ]);
  while (!ends.aborted) {
    await clock.after(LOOK_MS, ends).catch(() => undefined);
    for await (const finding of live.findings(clock.now())) {
      print(finding, startMs);
      if (page && finding.kind === "write") page.mark(...markOf(finding));
    }
  }
  await watching;
  await metricsServer.stop();
}

async function opened(client: KubeClient, server: string, flags: ShadowFlags, log: Log): Promise<LivePage> {
  const { clusterOptions, openLivePage, openText } = await import("./explain/timeline/open-page.ts");
  const explainOptions = clusterOptions(flags);
  const page = await openLivePage({ source: "deltaloop shadow", server, kube: createWatch(client), explainOptions, log });
  process.stderr.write(openText(page.url));
  return page;
}

/** Omits the differing values, which may be secret. */
function markOf({ atMs, write, verdict }: Extract<Finding, { kind: "write" }>): Parameters<LivePage["mark"]> {
  const { resource, namespace, name, controller } = write;
  const isWarning = verdict.kind === "unexplained" || verdict.kind === "excess";
  const title = `${labelOf(write)}: ${VERDICTS[verdict.kind]}`;
  const mark = { kind: "shadow", title, by: `upstream's ${controller} controller`, ...(isWarning && { isWarning }) } as const;
  return [{ kind: RESOURCES[resource].kind as Kind, namespace, name }, atMs, mark]; // the resource is a cached resource
}

/** Omits controllers that read a missing resource: they would decide as if no object existed. */
function judged(missing: readonly CachedResource[]): { readonly handlers: SyncPlace["handlers"]; readonly blind: string | undefined } {
  const blind = CONTROLLERS.filter((controller) => CONTROLLER_INFO[controller].reads.some((resource) => missing.includes(resource)));
  return {
    handlers: Object.fromEntries(Object.entries(SYNC_HANDLERS).filter(([controller]) => !blind.some((each) => each === controller))),
    blind:
      blind.length === 0
        ? undefined
        : `no ${missing.join(" and no ")} in this capture: the controllers ${blind.join(", ")} are not compared`,
  };
}

/** Reads the audit log up to the end of the capture. */
async function* auditedIn(file: string, { startMs, endMs }: Capture, log: Log): AsyncGenerator<UpstreamWrite> {
  const source = await reading(file, () => Promise.resolve(openBytes(file, () => undefined)));
  const report = new ImportReport();
  const values = auditEventsIn(source.chunks(), file, report);
  let truncated = 0;
  const onTruncated = (): void => void truncated++;
  for (;;) {
    const next = await reading(file, () => values.next());
    if (next.done === true) break;
    yield* writesOfAudit([next.value], file, { onTruncated }).filter(({ atMs }) => atMs >= startMs && atMs <= endMs);
  }
  if (truncated > 0) log.warn(`${file}: writes without their objects (audit.k8s.io/truncated) are not compared: ${truncated}`);
  for (const line of report.lines()) log.warn(`${file}: ${line}`);
  source.close();
}

function findingText(finding: Finding, startMs: number, all: boolean): string {
  const when = since(finding.atMs, startMs).padStart(9);
  if (finding.kind === "rest") return finding.ours.map((line) => `${when} ${printable(line)}: upstream wrote nothing here\n`).join("");
  const { write, verdict } = finding;
  const verb = write.verb === "delete" ? "deleted" : "created";
  if (verdict.kind === "excess")
    return `${when} ${printable(labelOf(write))}: upstream ${verb} ${verdict.upstream} pods, deltaloop would have ${verb} ${verdict.ours}\n`;
  const lag = verdict.kind === "older" ? `, ${verdict.lagMs} ms` : "";
  if (verdict.kind !== "unexplained") return all ? `${when} ${printable(labelOf(write))}: ${verdict.kind}${lag}\n` : "";
  const differences = nearestDifferences(verdict);
  const more = differences.length - DIFFERENCES_MAX;
  const shown = [...differences.slice(0, DIFFERENCES_MAX), ...(more > 0 ? [`and ${more} more`] : [])];
  return `${when} ${printable(labelOf(write))} of the ${write.controller} controller: differs\n${shown.map((line) => `            ${printable(line)}\n`).join("")}`;
}

function asJson(finding: Finding): object {
  if (finding.kind === "rest")
    return { kind: "rest", at: new Date(finding.atMs).toISOString(), namespace: finding.namespace, ours: finding.ours };
  const { atMs, write, verdict } = finding;
  const { controller, verb, resource, subresource, namespace, name } = write;
  return {
    ...{ kind: "write", at: new Date(atMs).toISOString(), controller, verb, resource, subresource, namespace, name, verdict: verdict.kind },
    ...(verdict.kind === "older" && { lagMs: verdict.lagMs }),
    ...(verdict.kind === "excess" && { ours: verdict.ours, upstream: verdict.upstream }),
    ...(verdict.kind === "unexplained" && { differences: nearestDifferences(verdict) }),
  };
}
