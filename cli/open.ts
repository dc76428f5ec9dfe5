/** `deltaloop open FILE`: serves a capture to kubectl. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { Option } from "commander";
import type { Command } from "commander";
import type { JsonObject } from "@deltaloop/base";
import { UsageError, wholeNumber } from "@deltaloop/base";
import { printable } from "@deltaloop/base/output";
import { kubeconfigPath, kubeHttpConfigFrom } from "@deltaloop/kube/kubeconfig";
import { EVIDENCE_RESOURCES, messageOf, resourceId } from "@deltaloop/kube/objects";
import type { EvidenceResource } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { createOwnFolder, untilSignalled } from "@deltaloop/local/processes";
import type { Capture } from "@deltaloop/replay/capture";
import { StateCensus } from "@deltaloop/replay/explain";
import { keptRecords, openRecords } from "./capture/read-records.ts";
import { withDetails } from "./command/help.ts";
import { momentIn, since } from "./command/moment.ts";
import { MOMENT, PastServer } from "./open/past-server.ts";
import type { Past } from "./open/past-server.ts";

interface OpenFlags {
  readonly at?: string;
  readonly set?: string;
  readonly port: number;
}

export function registerOpen(program: Command): void {
  withDetails(
    program
      .command("open")
      .description("Serves the objects of a capture at one time to kubectl.")
      .argument("[file]", "capture, optionally gzip-compressed, a recording that deltaloop import reads, or - for standard input")
      .option("--at <time>", "time to serve (default: the end of the capture)")
      .addOption(new Option("--set <time>", "move the running server of $KUBECONFIG to another time, and exit").conflicts("at"))
      .option("--port <port>", "loopback port; 0 selects a free port", wholeNumber("--port", { min: 0, max: 65_535 }), 0)
      .action(runOpen),
    {
      notes: [
        "Read-only. Prints a KUBECONFIG line, then serves until Ctrl-C. A line on standard input changes the time too, unless the capture came from there.",
        "kubectl get, describe, events, rollout history and -o yaml show the state at that time. kubectl prints warnings about data that the capture does not contain.",
        "A time is +12.3s from the beginning, 10:02:11.5 or 2026-03-01T10:02:11Z.",
      ],
      examples: ["open rollout.jsonl.gz --at 10:02:11", "open --set +12.3s"],
    },
  );
}

async function runOpen(file: string | undefined, flags: OpenFlags): Promise<void> {
  if (flags.set !== undefined) return moveRunning(flags.set, file);
  if (file === undefined) throw new UsageError("name a capture, or move a running server with --set");
  const interrupted = untilSignalled();
  const folder = createOwnFolder("open").path;
  let path = file;
  const past = await pastOf(file, flags.at, async (census) => {
    const kept = await keptRecords(file, folder, census);
    path = kept.path;
    return kept.capture;
  });
  const secret = randomBytes(16).toString("hex");
  const server = new PastServer(secret, past, (time) => pastOf(file, time, (census) => openRecords(path, census)));
  const http = await server.listen(flags.port);
  const kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, kubeconfigText(`${http.url}/${secret}`), { mode: 0o600 });
  const kinds = Map.groupBy(past.objects, ([resource]) => resource);
  process.stderr.write(
    `${printable(file)} at ${new Date(past.atMs).toISOString()}: ${[...kinds].map(([name, all]) => `${all.length} ${name}`).join(", ")}\n`,
  );
  process.stdout.write(`export KUBECONFIG=${kubeconfig}\n`);
  if (file !== "-") void moveByInput(server);
  await new Promise<void>((resolve) => interrupted.addEventListener("abort", () => resolve(), { once: true }));
  await http.close();
  process.exit();
}

async function moveByInput(server: PastServer): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === "") continue;
    const said = await server.moveTo(line.trim()).then(
      ({ atMs }) => `at ${new Date(atMs).toISOString()}`,
      (error: unknown) => printable(messageOf(error)),
    );
    process.stderr.write(`${said}\n`);
  }
}

async function moveRunning(time: string, file: string | undefined): Promise<void> {
  if (file !== undefined)
    throw new UsageError("--set changes the time that the running server of $KUBECONFIG shows: do not name a capture file");
  const path = kubeconfigPath(undefined);
  const { server } = await kubeHttpConfigFrom(path, { component: "open" });
  if (!/^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}$/.test(server))
    throw new UsageError(`${path} is not the kubeconfig of a running "deltaloop open": set KUBECONFIG as it printed`);
  const answer = await fetch(`${server}${MOMENT}`, { method: "PUT", body: time }).catch(() => {
    throw new Error(`"deltaloop open" is no longer running at ${new URL(server).host}`);
  });
  const text = await answer.text();
  if (!answer.ok) throw new UsageError((JSON.parse(text) as { readonly message: string }).message.replace("--at", "--set")); // the response is a Status
  process.stdout.write(`at ${text}\n`);
}

/** Returns the objects of a capture at a time. @throws {UsageError} if the time is not in the capture */
async function pastOf(name: string, time: string | undefined, open: (census: StateCensus) => Promise<Capture>): Promise<Past> {
  let [startMs, atMs] = [0, Infinity];
  const census = new StateCensus(createDigester("open".padEnd(32), ALL_RELEASES), (beginMs) => {
    startMs = beginMs;
    return (atMs = time === undefined ? Infinity : momentIn("--at", time, beginMs, Infinity));
  });
  const capture = await open(census);
  capture.close();
  if (time !== undefined) momentIn("--at", time, startMs, capture.endMs);
  atMs = Math.min(atMs, capture.endMs);
  const objects = [...census.apiObjects()].map(([resource, object]) => [resourceId(resource), object as JsonObject] as const); // plain JSON
  const namespaces = new Set(objects.flatMap(([, { metadata }]) => textOf((metadata as JsonObject)["namespace"])));
  const moment = `${basename(name)} at ${new Date(atMs).toISOString().slice(11, 23)}Z (${since(atMs, startMs)})`;
  return {
    atMs,
    objects: [...objects, ...[...namespaces].map((each) => ["namespaces", namespaceObject(each)] as const)],
    warningsOf: (resource) => warningsOf(resource, moment, census.unknown),
  };
}

function textOf(value: unknown): readonly string[] {
  return typeof value === "string" && value !== "" ? [value] : [];
}

function namespaceObject(name: string): JsonObject {
  return { kind: "Namespace", apiVersion: "v1", metadata: { name, uid: name, resourceVersion: "1" }, status: { phase: "Active" } };
}

const PARTLY = "commands, arguments, values of variables, volumes and most annotations are not captured";

function warningsOf(resource: string, moment: string, unknown: ReadonlySet<EvidenceResource>): readonly string[] {
  if (resource === "") return [];
  const isEvidence = EVIDENCE_RESOURCES.some((each) => each === resource);
  if (isEvidence) return [unknown.has(resource as EvidenceResource) ? `${moment}: ${resource} were not captured` : moment];
  if (resource === "namespaces") return [`${moment}: captures contain no Namespaces; this list is derived from the captured objects`];
  return [resource in OWN ? `${moment}: ${PARTLY}` : `${moment}: captures have no ${resource}`];
}

const OWN = { deployments: true, replicasets: true, replicationcontrollers: true, pods: true };

function kubeconfigText(server: string): string {
  const name = "deltaloop-open";
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    users: [{ name, user: {} }],
  };
  return `${JSON.stringify(config, null, 2)}\n`; // JSON is YAML
}
