/** `world`: an in-memory cluster under a virtual clock, with the real pipeline. */
import { createApiServer } from "@deltaloop/api-server";
import type { JsonObject } from "@deltaloop/base";
import { createSeededRandom, createVirtualClock } from "@deltaloop/base/memory";
import { shutGate } from "@deltaloop/controllers/cache";
import { durationMs } from "@deltaloop/controllers/own";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { problemsOf } from "@deltaloop/sdk/definitions";
import { endState } from "./end-state.ts";
import { everyCrash } from "./every-crash.ts";
import type { GivenObject } from "../decide/given.ts";
import { startBuiltIn } from "./built-in.ts";
import { kindsIn } from "./kinds.ts";
import { objectsOf } from "./objects.ts";
import { startPipeline } from "./pipeline.ts";
import type { Hooks } from "./pipeline.ts";
import { createRecorder } from "./record.ts";
import { Activity, pass, settle } from "./settle.ts";
import type { Watched } from "./idle.ts";
import type { OpenWorld, Stored, World, WorldOptions } from "./types.ts";

const NOW = new Date("2026-01-01T00:00:00Z");
const SEED = 1;
const READY_STEP_MS = 20;
const READY_MS_MAX = 60_000;
/** Kinds that need the built-in controllers and nodes. */
const WORKLOADS = new Set(["pods", "replicasets", "deployments", "replicationcontrollers"]);

/** Starts an in-memory cluster with these controllers. @throws {Error} if a definition is invalid */
export async function world(options: WorldOptions): Promise<World> {
  return await openWorld(options);
}

/** @param hooks through which simulations inject faults */
export async function openWorld(options: WorldOptions, hooks: Hooks = {}): Promise<OpenWorld> {
  const { controllers, now = NOW, seed = SEED, builtIn = true } = options;
  const definitions = controllers.map(({ definition }) => definition);
  const problems = problemsOf(definitions, CONTROLLERS);
  if (problems.length > 0) throw new Error(problems.join("; "));
  const [clock, random] = [createVirtualClock(now.getTime()), createSeededRandom(seed)];
  const server = createApiServer({ clock, random, managedFields: true });
  const kinds = kindsIn(definitions);
  const objects = objectsOf(server, kinds);
  await objects.addKinds(definitions);
  const activity = new Activity(server);
  const recorder = createRecorder(clock, (resource, namespace, name) => server.peek(resource, namespace, name));
  let difference: Error | undefined;
  const pipeline = startPipeline({
    ...{ server, controllers, recorder, hooks, clock, random },
    report(report) {
      activity.report(report);
      recorder.report(report);
      hooks.onReport?.(report);
    },
    onDifference: (error) => (difference ??= error),
  });
  const systems: Watched[] = [{ backend: pipeline, names: pipeline.names }];
  server.onRequest(({ verb, resource, status }) => {
    // Starts the built-in controllers only with the first workload, because their Leases and heartbeats cost time.
    if (builtIn && systems.length === 1 && verb !== "list" && verb !== "watch" && verb !== "get" && status < 300 && WORKLOADS.has(resource))
      systems.push({ backend: startBuiltIn(server, { clock, random }), names: CONTROLLERS });
  });
  const check = (): void => {
    if (difference !== undefined) throw difference;
    const [wrong] = recorder.wrong();
    if (wrong !== undefined) throw new Error(wrong);
  };
  const readyMs = clock.now() + READY_MS_MAX;
  while ((await shutGate(pipeline.store, pipeline.names)) !== undefined) {
    if (clock.now() > readyMs) throw new Error("the caches did not become complete");
    await clock.advance(READY_STEP_MS);
  }
  // The API server has checked it.
  const stored = <K = unknown>(object: JsonObject): Stored<K> => object as unknown as Stored<K>;
  const made: OpenWorld = {
    get now() {
      return new Date(clock.now());
    },
    apply: async (object, manager) => stored(await objects.apply(object as GivenObject, manager)), // a made body is an object
    edit: async (kind, namespace, name, patch) => stored(await objects.edit(kind.data, namespace, name, patch)),
    delete: (kind, namespace, name) => objects.delete(kind.data, namespace, name),
    get(kind, namespace, name) {
      const found = objects.get(kind.data, namespace, name);
      return found && stored(found);
    },
    list: async (kind, namespace) => (await objects.list(kind.data, namespace)).map((each) => stored(each)),
    writes: () => recorder.writes(),
    settle: () => settle(clock, activity, () => systems, check),
    async advance(duration) {
      await pass(clock, durationMs("advance", duration), activity, () => systems);
      check();
    },
    everyCrash: (scenario, at) => everyCrash((faults) => openWorld(options, { ...hooks, faults }), scenario, at),
    endState: () => endState(kinds.all, objects),
    created: () => recorder.created(),
    emptyStore() {
      pipeline.data.epoch = undefined;
    },
    async resync() {
      const { current } = await pipeline.store.lineage();
      const before = recorder.writes().length;
      for (const name of current ? pipeline.names : [])
        await pipeline.doorbells.ring(await pipeline.store.resync(current?.record.epoch ?? "", name, 0));
      await made.settle();
      const [sent] = recorder.writes().slice(before);
      if (sent === undefined) return;
      const why = sent.why === undefined ? "" : ` (${sent.why})`;
      throw new Error(
        `one more sync of ${sent.controller} ${sent.key} sends ${sent.what}${why}, although nothing has changed: its result must depend on the snapshot alone`,
      );
    },
  };
  return made;
}
