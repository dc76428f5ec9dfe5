/**
 * `deltaloop dev FILE…`: user controllers on a cluster. One process watches, decides and writes, with the Store in memory; the functions run
 * in a process of their own (functions.ts). Shadow mode unless `--act`.
 */
import { randomBytes } from "node:crypto";
import type { Log } from "@deltaloop/base";
import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { shutGate, UPKEEP_TIMES } from "@deltaloop/controllers/cache";
import { createSyncFunction } from "@deltaloop/controllers/lambda";
import { ownControllers, ownKeySync, registryOf, unsupportedBy } from "@deltaloop/controllers/own";
import type { OwnControllerEntry, OwnReport } from "@deltaloop/controllers/own";
import { cacheOf, syncFunction } from "@deltaloop/controllers/registry";
import { readClusterIdentity } from "@deltaloop/kube/client";
import { createClient, createKubeHttp, kubeOver } from "@deltaloop/kube/http";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { KubeFlags } from "@deltaloop/kube/kubeconfig";
import { CONTROLLERS, messageOf, tableOf } from "@deltaloop/kube/objects";
import type { ControllerName, View } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import { startMessagingVerb, untilSignalled } from "@deltaloop/local/processes";
import { apiVersionOf, problemsOf } from "@deltaloop/sdk/definitions";
import type { Definition } from "@deltaloop/sdk/definitions";
import { managerOf } from "@deltaloop/sdk/writes";
import { createSigner } from "@deltaloop/store/ports";
import type { ItemChange } from "@deltaloop/store/ports";
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { readApiServer } from "../cluster/api-server.ts";
import { unsupported } from "../cluster/kubernetes-versions.ts";
import { starting } from "../cluster/startup.ts";
import type { StartupFlags } from "../cluster/startup.ts";
import { loadDefinitions } from "../manifests/load-definitions.ts";
import { isClusterAdmin, kindProblems, missingRights, writtenBy } from "./cluster.ts";
import { ownHosts } from "./functions.ts";

export interface OwnDevFlags extends StartupFlags {
  readonly kube: KubeFlags;
  readonly act: boolean;
  readonly yes: boolean;
  readonly anyKubernetes: boolean;
  readonly verbose: boolean;
  /** Runs once they are ready; its end ends them. */
  readonly beside?: (ends: AbortSignal) => Promise<number>;
}

const READY_POLL_MS = 20;
/** Longer than a sync may run before it is killed, so that its key fails and backs off. */
const SYNC_TIMEOUT_SECONDS = 90;
/** The host runs `concurrency` keys of a controller at a time; an invocation has up to ten. */
const INVOCATIONS = 10;

export async function runOwnDev(files: readonly string[], flags: OwnDevFlags): Promise<number> {
  const startedMs = Date.now();
  const signalled = untilSignalled();
  const log = consoleLog("deltaloop: ", flags.verbose ? "debug" : "info");
  const definitions = (await Promise.all(files.map(loadDefinitions))).flat();
  const problems = [...problemsOf(definitions, CONTROLLERS), ...definitions.flatMap(unsupportedBy)];
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
  const { cid, uid } = await lookAround(definitions, flags, log);

  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const digester = createDigester(randomBytes(32));
  const entries = ownControllers(definitions);
  const registry = registryOf(entries);
  const cache = cacheOf(registry);
  const backend = memoryBackend({ clock, random, digester, deployment: "dev-own", cluster: cid, catalog: cache.catalog });
  const access = await kubeAccess(flags.kube, "deltaloop-own", "own");
  const hosts = ownHosts(definitions, { start: () => startMessagingVerb("own-host", files), clock, log });
  const triggers = new Triggers(entries);
  const report = (line: OwnReport): void => void process.stdout.write(`${lineOf(line, triggers.take(line), new Date())}\n`);
  const handlers = new Map(entries.map((entry) => [entry.name as ControllerName, ownKeySync(entry, { functions: hosts, report })]));
  // What the components report about one sync is in its line.
  const quiet: Log = flags.verbose
    ? log
    : { ...log, info: () => undefined, error: (message, fields) => void (message.startsWith("sync failed") || log.error(message, fields)) };
  try {
    await hosts.ready();
    const system = assembleSystem<ControllerName>(
      {
        ...{ clock, random, digester, signer: createSigner([randomBytes(32).toString("hex")], cid), log: quiet },
        ...backend,
        kube: (component) => createKubeHttp({ ...access, component }),
        functions: (wiring, onChanges) => ({
          applyDeltas: createApplyDeltas({ ...wiring("apply-deltas"), registry: cache, ...(onChanges && { onChanges }) }),
          deadDeltas: createDeadDeltas(wiring("dead-deltas")),
          sync: tableOf(cache.catalog.controllers, (name) => {
            const keySync = handlers.get(name);
            return createSyncFunction(wiring(syncFunction(name)), registry, name, keySync ? { [name]: keySync } : {});
          }),
        }),
      },
      {
        ...{ cluster: cid, clusterUid: uid, mode: flags.act ? "act" : "shadow", registry, upkeep: UPKEEP_TIMES },
        ...{ concurrency: INVOCATIONS, syncTimeoutSeconds: SYNC_TIMEOUT_SECONDS },
        onChanges: (view, items) => triggers.note(view, items),
      },
    );
    try {
      while (!signalled.aborted && (await shutGate(backend.store, cache.catalog.controllers)) !== undefined)
        await clock.after(READY_POLL_MS);
      if (!signalled.aborted) {
        const mode = flags.act ? "act" : "shadow (prints writes, sends nothing)";
        process.stdout.write(`ready: ${((Date.now() - startedMs) / 1_000).toFixed(1)} s, mode ${mode}\n`);
        if (flags.beside) return await flags.beside(signalled);
        await new Promise<void>((resolve) => signalled.addEventListener("abort", () => resolve(), { once: true }));
      }
    } finally {
      await system.stop();
    }
  } finally {
    hosts.stop();
    await backend.store.close();
  }
  return 0;
}

/** Everything that must hold before a controller starts. @throws {UsageError} with one line for each problem */
async function lookAround(
  definitions: readonly Definition[],
  flags: OwnDevFlags,
  log: Log,
): Promise<{ readonly cid: string; readonly uid: string }> {
  const access = await kubeAccess(flags.kube, "deltaloop-own", "own");
  const client = starting(createClient(access), access.server, flags, log);
  const unusable = (error: unknown): never => {
    throw new UsageError(`${access.server} cannot be used: ${messageOf(error)}`);
  };
  const { gitVersion } = await readApiServer(client).catch(unusable);
  const why = unsupported(gitVersion);
  if (why !== undefined && flags.act && !flags.anyKubernetes) throw new UsageError(`${why}. To act anyway, add --any-kubernetes`);
  if (why !== undefined) log.warn(why);
  // First, because the other calls need some of them.
  const missing = await missingRights(client, definitions, flags.act).catch(unusable);
  if (missing.length > 0)
    throw new UsageError(missing.map((right) => `missing right: ${right}: grant what \`deltaloop manifests FILE\` prints`).join("\n"));
  const identity = await readClusterIdentity(kubeOver(client)).catch(unusable);
  const problems = await kindProblems(client, definitions).catch(unusable);
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
  for (const definition of definitions) {
    const { name, primary, owns } = definition;
    const owned = owns.length === 0 ? "" : ` · owns ${owns.map(({ kind }) => kind.kind).join(", ")}`;
    log.info(`${name}: for ${primary.kind} (${apiVersionOf(primary)})${owned} · field manager ${managerOf(name)}`);
    if (flags.act) for (const what of writtenBy(definition)) log.info(`${name} may: ${what}`);
  }
  if (flags.act && !flags.yes && (await isClusterAdmin(client).catch(unusable)))
    throw new UsageError(
      "these credentials may do everything in the cluster: use those of a service account that `manifests` prints, or add --yes",
    );
  return identity;
}

/** Why keys were enqueued, for their next line. */
class Triggers {
  readonly #views: ReadonlyMap<View, string>;
  readonly #noted = new Map<string, Set<string>>();

  constructor(entries: readonly OwnControllerEntry[]) {
    this.#views = new Map(entries.flatMap(({ views }) => views.map(({ name, kind }) => [name as View, kind.kind] as const)));
  }

  note(view: View, items: readonly ItemChange[]): void {
    for (const { key: changed, type, expected, effects } of items) {
      const what = type === "put" ? (expected ? "changed" : "created") : "deleted";
      for (const { controller, key, self = false } of effects) {
        const id = `${controller} ${key}`;
        const texts = this.#noted.get(id) ?? new Set();
        this.#noted.set(id, texts.add(self ? what : `${this.#views.get(view) ?? view} ${changed} ${what}`));
      }
    }
  }

  take({ controller, key, failures }: OwnReport): string {
    const id = `${controller} ${key}`;
    const texts = [...(this.#noted.get(id) ?? [])];
    this.#noted.delete(id);
    const [first, second, ...others] = texts;
    if (first === undefined) return failures > 0 ? `retry ${failures}` : "own write or requeue";
    return [first, ...(second === undefined ? [] : [second]), ...(others.length === 0 ? [] : [`${others.length} more`])].join(", ");
  }
}

/** `12:00:04.120 website shop/a   created → create Deployment shop/a (missing)   18 ms`. */
function lineOf({ controller, key, writes, isShadow, note, durationMs }: OwnReport, trigger: string, at: Date): string {
  const sent = writes.map(({ what, why }) => `${what} (${why})`).join(", ");
  const end = [...(sent === "" ? [] : [isShadow ? `would ${sent}` : sent]), ...(note === undefined ? [] : [note])].join("; ");
  return printable(
    `${at.toISOString().slice("2026-01-01T".length, -1)} ${controller} ${key}   ${trigger} → ${end || "nothing"}   ${Math.round(durationMs)} ms`,
  );
}
