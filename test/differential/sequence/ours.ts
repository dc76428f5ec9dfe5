/**
 * Runs our system for a whole history: the watcher, the deployed functions behind their queues, and the Store in memory, on the scenario's
 * clock.
 */
import { functionHandlers } from "../../../cli/functions/functions.ts";
import { createMemoryDeltaQueue } from "../../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../../shared/store/memory/queue/doorbells.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import { kubeOver } from "../../../shared/kube/http/kube-http.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { UPKEEP_TIMES } from "../../../shared/controllers/cache/watcher/upkeep.ts";
import { runWatcher } from "../../../shared/controllers/cache/watcher/watcher.ts";
import { serving } from "../../../shared/controllers/lambda/wiring.ts";
import type { ApiResponse } from "../../../shared/api-server/api-server.ts";
import type { ApiRequest } from "../../../shared/api-server/rest/request-info.ts";
import { createInProcessClient, createInProcessKube } from "../../../shared/api-server/in-process-client.ts";
import { startFunctionHost } from "../../../shared/local/function-host.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import type { KubeWatch, WatchFrame } from "../../../shared/kube/client/kube.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../../shared/base/times.ts";
import { silentLog } from "../../support/silent-log.ts";
import { testSigner } from "../../support/signer.ts";
import { soleLeader } from "../../../shared/local/assemble-system.ts";
import type { ClusterRelease } from "../../../shared/controllers/cache/watcher/cluster-release.ts";
import { COMPARED_RELEASE } from "../release.ts";
import type { Script } from "./script.ts";
import { EXPIRED, type Scenario } from "./scenario.ts";

const BEGIN_MS = 2_000;
const NEVER_MS = 1_000_000_000;
const CLUSTER = "c1";
const SIGNER = testSigner(CLUSTER);
const RELEASE: ClusterRelease = { look: () => Promise.resolve(), current: () => COMPARED_RELEASE.name };
const DIGESTER = createDigester("sequence");

export async function playOurs(scenario: Scenario, script: Script): Promise<void> {
  const { clock, server } = scenario;
  const random = createSeededRandom(1);
  const identity = cacheIdentity(DIGESTER);
  const store = createMemoryStore({ deployment: "test", cluster: CLUSTER, identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  const queue = createMemoryDeltaQueue({ clock, random });
  const doorbells = createMemoryDoorbells({ clock, random, cluster: CLUSTER });
  const client = createInProcessClient({ request: (request) => answered(scenario, request, script.answersLateMs) }, { component: "ours" });
  const served = serving(CLUSTER, kubeOver(client), "act", { store, signer: SIGNER, doorbells });
  const ports = { clock, random, log: silentLog, digester: DIGESTER };
  const ends = new AbortController();
  const host = startFunctionHost({
    sources: { deltas: queue, doorbells: doorbells.sources },
    // All controllers run; those that the script does not use have no work.
    handlers: functionHandlers(() => ({ ...ports, ...served })),
    clock,
    log: silentLog,
  });
  const leadership = soleLeader();
  const direct = createInProcessKube(server, { component: "watcher" });
  const kube = late(losing(direct, scenario), clock, "pods", script.podsLagMs);
  const { resyncMs } = script;
  // Disables the audit, which would repair mistakes.
  const times = { ...UPKEEP_TIMES, auditMs: NEVER_MS, ...(resyncMs !== undefined && { resyncMs, resyncSpreadMs: resyncMs / 10 }) };
  const watching = runWatcher(
    { ...ports, kube, store, queue, doorbells, signer: SIGNER, lead: () => Promise.resolve(leadership), release: RELEASE },
    {
      cluster: CLUSTER,
      clusterUid: "uid",
      identity,
      holeRelistMs: HOLE_RELIST_MS,
      upkeep: { ...times, reader: direct, registry: CORE_CACHE },
    },
    ends.signal,
  );
  for (const act of script.acts) {
    await clock.advance(act.atMs - scenario.nowMs);
    await scenario.act(act);
  }
  await clock.advance(script.endMs - scenario.nowMs);
  ends.abort(new Error("the history has ended"));
  const stopped = Promise.all([host.stop(), watching.catch(() => undefined)]);
  await clock.advance(60_000);
  await stopped;
}

/** Delays the events of one resource, except those of the initial list. */
function late<K extends KubeWatch>(kube: K, clock: Clock, which: CachedResource, lagMs: number): K {
  if (lagMs === 0) return kube;
  const fromMs = clock.now() + BEGIN_MS;
  return {
    ...kube,
    async *watch(...[resource, query, signal]: Parameters<KubeWatch["watch"]>) {
      if (resource !== which) return void (yield* kube.watch(resource, query, signal));
      const arrived: { readonly dueMs: number; readonly lines: readonly WatchFrame[] }[] = [];
      let wake = (): void => undefined;
      let ended = false;
      const reading = (async () => {
        try {
          for await (const lines of kube.watch(resource, query, signal)) {
            arrived.push({ dueMs: clock.now() + (clock.now() > fromMs ? lagMs : 0), lines });
            wake();
          }
        } finally {
          ended = true;
          wake();
        }
      })();
      reading.catch(() => undefined); // the reader gets the error when it awaits the reading
      for (;;) {
        const next = arrived.shift();
        if (next !== undefined) {
          await clock.after(next.dueMs - clock.now(), signal);
          yield next.lines;
        } else if (ended) return await reading;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

/** Executes a write immediately and delays its response. */
async function answered(scenario: Scenario, request: ApiRequest, lateMs = 0): Promise<ApiResponse> {
  const answer = await scenario.request(request);
  if (lateMs > 0 && request.method !== "GET") await scenario.clock.after(lateMs, new AbortController().signal);
  return answer;
}

/** Drops events while the scenario loses them, and ends the watch afterwards. */
function losing<K extends KubeWatch>(kube: K, scenario: Scenario): K {
  const watching = new Map<CachedResource, AbortController>();
  scenario.onSeeing((resource) => watching.get(resource)?.abort(new Error("expired")));
  return {
    ...kube,
    async *watch(...[resource, query, signal]: Parameters<KubeWatch["watch"]>) {
      const seen = new AbortController();
      watching.set(resource, seen);
      try {
        for await (const lines of kube.watch(resource, query, AbortSignal.any([signal, seen.signal])))
          if (!scenario.blind.has(resource)) yield lines;
      } catch (error) {
        if (!seen.signal.aborted || signal.aborted) throw error;
        yield [JSON.stringify(EXPIRED)];
      }
    },
  };
}
