/**
 * One process that watches, decides and writes for user controllers, with the Store in memory. Changed definitions need another one; it
 * continues the Store of the one before, so that only new views are listed and no object is written again without a reason.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Log, Random } from "@deltaloop/base";
import { shutGate, UPKEEP_TIMES } from "@deltaloop/controllers/cache";
import { createSyncFunction } from "@deltaloop/controllers/lambda";
import { ownControllers, ownKeySync, registryOf, SyncFailure } from "@deltaloop/controllers/own";
import type { OwnFunctions, OwnReport } from "@deltaloop/controllers/own";
import { cacheOf, syncFunction } from "@deltaloop/controllers/registry";
import { createKubeHttp } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { tableOf } from "@deltaloop/kube/objects";
import type { ControllerName } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import type { Definition } from "@deltaloop/sdk/definitions";
import { createMemoryData, withCatalog } from "@deltaloop/store/memory";
import type { MemoryData } from "@deltaloop/store/memory";
import { createSigner } from "@deltaloop/store/ports";
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { REPLACED } from "./functions.ts";
import { Triggers } from "./triggers.ts";

const READY_POLL_MS = 20;
/** Longer than the host lets a sync run before it kills the process; the sync then fails and its key backs off. */
const SYNC_TIMEOUT_SECONDS = 90;
/** The host runs `concurrency` keys of a controller at a time; an invocation has up to ten. */
const INVOCATIONS = 10;

export interface OwnSystemOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly access: Omit<KubeHttpConfig, "component">;
  readonly cluster: { readonly cid: string; readonly uid: string };
  readonly act: boolean;
  readonly functions: OwnFunctions;
  readonly report: (line: OwnReport, trigger: string) => void;
}

export interface OwnSystem {
  /** Resolves once all gates are open, or `ends` aborts. */
  ready(ends: AbortSignal): Promise<void>;
  /** Enqueues all keys, including those in back-off. @returns their number */
  requeue(why: string): Promise<number>;
  /**
   * Stops this system and starts another one for changed definitions. `use` is called in between, when no further call for the old
   * definitions follows; running calls must end or fail soon.
   */
  redefine(definitions: readonly Definition[], use: () => void): Promise<void>;
  stop(): Promise<void>;
}

export function startOwnSystem(definitions: readonly Definition[], options: OwnSystemOptions): OwnSystem {
  const digester = createDigester(randomBytes(32));
  const signer = createSigner([randomBytes(32).toString("hex")], options.cluster.cid);
  let fence = 1;
  let data: MemoryData | undefined;
  const start = (of: readonly Definition[]) => {
    const entries = ownControllers(of);
    const registry = registryOf(entries);
    const cache = cacheOf(registry);
    data = data === undefined ? createMemoryData(cache.catalog) : withCatalog(data, cache.catalog);
    const { clock, random, log, access, cluster, act, report } = options;
    const { cid, uid } = cluster;
    const ending = new AbortController();
    const functions: OwnFunctions = {
      async sync(call) {
        ending.signal.throwIfAborted();
        return await options.functions.sync(call);
      },
    };
    const backend = memoryBackend({ clock, random, digester, deployment: "dev-own", cluster: cid, catalog: cache.catalog, data });
    const triggers = new Triggers(entries);
    const reported = (line: OwnReport): void => report(line, triggers.take(line));
    const handlers = new Map(
      entries.map((entry) => {
        const sync = ownKeySync(entry, { functions, report: reported });
        const run: typeof sync.run = (ports, key) => {
          triggers.starts(entry.name, key.key);
          return sync.run(ports, key);
        };
        return [entry.name as ControllerName, { ...sync, run }] as const;
      }),
    );
    const system = assembleSystem<ControllerName>(
      {
        ...{ clock, random, digester, signer, log },
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
        ...{ cluster: cid, clusterUid: uid, mode: act ? "act" : "shadow", registry, upkeep: UPKEEP_TIMES, fence },
        ...{ concurrency: INVOCATIONS, syncTimeoutSeconds: SYNC_TIMEOUT_SECONDS },
        onChanges: (view, items, isListed) => triggers.note(view, items, isListed),
      },
    );
    return { system, backend, catalog: cache.catalog, triggers, ending };
  };
  let running = start(definitions);
  const stop = async (): Promise<void> => {
    await running.system.stop();
    await running.backend.store.close();
  };
  return {
    async ready(ends) {
      const { backend, catalog } = running;
      while (!ends.aborted && (await shutGate(backend.store, catalog.controllers)) !== undefined) await options.clock.after(READY_POLL_MS);
    },
    async requeue(why) {
      const { backend, catalog, triggers } = running;
      const { store, doorbells } = backend;
      const epoch = (await store.epoch())?.epoch;
      if (epoch === undefined) return 0;
      let count = 0;
      for (const controller of catalog.controllers) {
        const bells = [...(await store.resync(epoch, controller, 0))];
        const queued = await store.queued(controller);
        for (const { key, failures } of queued) {
          triggers.enqueued(controller, key, why);
          // A resync leaves a key in back-off alone, but the saved code may repair it.
          const bell = failures > 0 ? await store.add(epoch, controller, key, 0) : undefined;
          if (bell) bells.push(bell);
        }
        await doorbells.ring(bells);
        count += queued.length;
      }
      return count;
    },
    async redefine(changed, use) {
      running.ending.abort(new SyncFailure(REPLACED));
      const stopped = stop();
      use();
      await stopped;
      fence += FENCES;
      running = start(changed);
    },
    stop,
  };
}

/** Number of fences reserved for one system, more than it ever uses. */
const FENCES = 1_000_000;
