/** `deltaloop explain deploy/web`: the verdict on a running cluster, from one list of each resource. */
import type { Log } from "@deltaloop/base";
import { UsageError } from "@deltaloop/base";
import { consoleLog } from "@deltaloop/base/output";
import { createSystemClock } from "@deltaloop/base/system";
import type { KubeReader } from "@deltaloop/kube/client";
import { createKubeCalls } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { kubeconfigPath, kubeHttpConfigFrom, namespaceOf } from "@deltaloop/kube/kubeconfig";
import { CACHED_RESOURCES, EVIDENCE_RESOURCES, messageOf } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { StateCensus, verdictOf, worstFirst } from "@deltaloop/replay/explain";
import type { ClusterState, Verdict } from "@deltaloop/replay/explain";
import { untilSignalled } from "@deltaloop/local/processes";
import { accessFailure } from "../cluster/access-failure.ts";
import { untilListed } from "../cluster/startup.ts";
import type { StartupFlags } from "../cluster/startup.ts";
import { objectText } from "../output/output-option.ts";
import type { OutputFormat } from "../output/output-option.ts";
import { printWorst } from "./print-worst.ts";
import { objectName, wantedBy } from "./subject.ts";
import { verdictJson, verdictText } from "./verdict-text.ts";

export interface LiveFlags extends StartupFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
  readonly watch?: true;
  readonly all?: true;
  readonly output?: OutputFormat;
}

const POLL_MS = 2_000;
/** After this time without progress the rollout is stuck; errors that a retry repairs do not count. */
const STUCK_MS = 30_000;
const EXIT_STUCK = 1;
const LIVE = { isLive: true };

/** Explains a workload of a running cluster. @param object in kubectl's form; empty: all workloads of the namespace */
export async function explainLive(object: string, flags: LiveFlags): Promise<void> {
  const wanted = object === "" ? undefined : wantedBy(object, flags.namespace);
  if (wanted === undefined && flags.watch === true) throw new UsageError("--watch needs an object, such as deploy/web");
  const { config, namespace } = await clusterOf(wanted?.namespace, flags);
  const kube = createKubeCalls({ ...config, waitMsMax: POLL_MS });
  const log = consoleLog("", "warn");
  await untilListed(config, { ...flags, namespace }, log);
  const read = (): Promise<ClusterState> => readState(kube, { namespace, server: config.server, log });
  if (wanted === undefined) return printWorst(worstFirst(await read(), LIVE), undefined, { ...flags, namespace });
  const subject = { ...wanted, namespace };
  const judge = async (): Promise<Verdict> => {
    const verdict = verdictOf(await read(), subject, LIVE);
    if (verdict === undefined) throw new UsageError(`${objectName(subject.resource, subject.name)} is not in namespace ${namespace}`);
    return verdict;
  };
  const verdict = flags.watch === true ? await watched(judge, flags.output) : await judge();
  if (flags.watch !== true) print(verdict, flags.output);
  if (verdict.health === "stuck") process.exitCode = EXIT_STUCK;
}

/**
 * The cluster of the kubeconfig, and the namespace: the given namespace, otherwise that of the flags or the context. @throws {UsageError}
 */
export async function clusterOf(
  given: string | undefined,
  flags: LiveFlags,
): Promise<{ readonly config: KubeHttpConfig; readonly namespace: string }> {
  const path = kubeconfigPath(flags.kubeconfig);
  const options = { component: "explain", ...(flags.context !== undefined && { context: flags.context }) };
  const [config, contextNamespace] = await Promise.all([kubeHttpConfigFrom(path, options), namespaceOf(path, flags.context)]).catch(
    (error: unknown) => {
      throw new UsageError(messageOf(error));
    },
  );
  return { config, namespace: given ?? flags.namespace ?? contextNamespace };
}

function print(verdict: Verdict, output: OutputFormat | undefined): void {
  process.stdout.write(output ? objectText(verdictJson(verdict), output) : verdictText(verdict));
}

/** Prints each verdict that differs from the previous one, until the rollout is complete, or stuck for some time. */
async function watched(judge: () => Promise<Verdict>, output: OutputFormat | undefined): Promise<Verdict> {
  const clock = createSystemClock();
  const ended = untilSignalled();
  let last: string | undefined;
  let stuckSinceMs: number | undefined;
  for (;;) {
    const verdict = await judge();
    const { health, effect, findings } = verdict;
    const gist = JSON.stringify([health, effect, findings.map(({ kind, facts, objects }) => [kind, facts, objects.length])]);
    if (gist !== last) print(verdict, output);
    last = gist;
    stuckSinceMs = health === "stuck" ? (stuckSinceMs ?? clock.now()) : undefined;
    const isLate = findings.some(({ kind }) => kind === "deadline exceeded");
    if (health === "complete" || isLate || (stuckSinceMs !== undefined && clock.now() - stuckSinceMs >= STUCK_MS)) return verdict;
    await clock.after(POLL_MS, ended).catch(() => undefined);
    if (ended.aborted) return verdict;
    if (!output && gist !== last) process.stdout.write("\n");
  }
}

/** Lists all resources of a verdict. @throws {UsageError} for a missing permission */
async function readState(
  kube: KubeReader,
  { namespace, server, log }: { readonly namespace: string; readonly server: string; readonly log: Log },
): Promise<ClusterState> {
  const census = new StateCensus(createDigester("explain".padEnd(32), ALL_RELEASES));
  const atMs = createSystemClock().now();
  const list = async (resource: Parameters<KubeReader["list"]>[0]): Promise<readonly object[]> =>
    (await kube.list(resource, resource === "nodes" ? "" : namespace)).items;
  await Promise.all([
    ...CACHED_RESOURCES.map(async (resource) => {
      const items = await list(resource).catch((error: unknown) => {
        throw accessFailure(error, `list ${resource}`, server) ?? error;
      });
      for (const object of items) census.see({ atMs, resource, kind: "item", object: { ...object } });
    }),
    ...EVIDENCE_RESOURCES.map(async (resource) => {
      try {
        const items = await list(resource);
        census.seeEvidence({ atMs, resource, kind: "listed" });
        for (const object of items) census.seeEvidence({ atMs, resource, kind: "event", type: "ADDED", object: { ...object } });
      } catch (error) {
        log.debug("not read", { resource, err: messageOf(error) });
        census.seeEvidence({ atMs, resource, kind: "denied" });
      }
    }),
  ]);
  return census.state({ nowMs: atMs });
}
