/**
 * Runs scenes on a real API server under faults, many at a time, each in a namespace of its own. A trial fails if a stage does not reach
 * its expected state, if an object is created twice, or if the controller writes an object that its primary does not own.
 */
import { isDeepStrictEqual } from "node:util";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import { createKubeHttp } from "../../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import { cacheOf } from "../../../shared/controllers/registry/cache-of.ts";
import { ownControllers, registryOf } from "../../../shared/controllers/own/registry.ts";
import { valueAt } from "../../../shared/controllers/own/project.ts";
import { managerOf } from "../../../shared/sdk/writes.ts";
import { crdManifest } from "../../../shared/sdk/definitions.ts";
import type { Cluster } from "../../support/e2e.ts";
import { eventually } from "../../support/eventually.ts";
import type { RawClient } from "../../support/raw-client.ts";
import type { Fault } from "../../../shared/test-kit/simulation.ts";
import { createPlannedFaults } from "./call-faults.ts";
import { late } from "./late-watch.ts";
import type { CallName } from "./call-faults.ts";
import { addBystanders, EXAMPLES, KINDS, pathOf, SOURCE } from "./scenes.ts";
import type { Plural, Scene, Stage } from "./scenes.ts";
import { fasterClock, startOwnSystem } from "./system.ts";

export interface Trial {
  /** The trial's namespace. */
  readonly id: string;
  readonly scene: Scene;
  readonly faults: readonly (readonly [CallName, Fault])[];
  /** The action of the concurrent writer. */
  readonly other?: "takes the name" | "edits" | "deletes";
  /** Real time in ms before the first request. Default 0. */
  readonly startMs?: number;
}

export interface TrialsOptions {
  readonly trials: readonly Trial[];
  /** The Store loses all data after each of these times, in real ms. */
  readonly lossesMs?: readonly number[];
  /** The delay of the watch, in ms of the faster clock. */
  readonly lateMs?: number;
  /** The number of stages of each scene. Default: all. */
  readonly stages?: number;
  /** Factor by which the clock is faster. */
  readonly timesFaster?: number;
}

export interface Outcome {
  /** `<trial>: <why>`. */
  readonly failures: readonly string[];
  readonly trials: number;
  readonly faultsOccurred: number;
  /** The calls for each trial's key. */
  readonly calls: ReadonlyMap<string, readonly CallName[]>;
}

export const STAGES_MAX = 3;
const TIMES_FASTER = 4;
/** Offset of the clock in ms, so that pod-janitor considers pods that have just ended old enough to delete. */
const AHEAD_MS = 7_200_000;
const STAGE_MS_MAX = 60_000;
const LOOK_MS = 300;
/** Time in ms during which a settled key must not change. */
const STILL_MS = 1_500;
const OPENED_AT_ONCE = 16;
const NAME_TAKEN_MS = 500;
const MERGE = "application/merge-patch+json";

interface Found {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly managedFields?: readonly { readonly manager?: string }[];
  };
  readonly [field: string]: unknown;
}
/** `<plural>/<name>` of one namespace. */
type State = ReadonlyMap<string, Found>;

interface States {
  readonly of: ReadonlyMap<string, State>;
  /** Namespaces with an Event `NameTaken` for an object in them or for themselves. */
  readonly taken: ReadonlySet<string>;
}

interface FoundEvent {
  readonly reason?: string;
  readonly involvedObject: { readonly name: string; readonly namespace?: string };
}

/** Creates the cluster-wide objects that all trials need. */
export async function prepareCluster({ client }: Cluster): Promise<void> {
  await client.request("POST", "/api/v1/namespaces", { metadata: { name: SOURCE.metadata.namespace } });
  await client.request("POST", pathOf("secrets", SOURCE.metadata.namespace), SOURCE);
  for (const { definition } of EXAMPLES)
    if (definition.primary.crd)
      await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crdManifest(definition.primary));
  await eventually("Websites are served", () => client.list(`${KINDS.websites}/websites`).then(() => true));
}

export async function runTrials(
  cluster: Cluster,
  { trials, lossesMs = [], lateMs = 0, stages = STAGES_MAX, timesFaster = TIMES_FASTER }: TrialsOptions,
): Promise<Outcome> {
  const user = cluster.client;
  const access = await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "own" });
  const clock = fasterClock(timesFaster, AHEAD_MS);
  const faults = createPlannedFaults();
  for (const { id, scene, faults: planned } of trials)
    for (const [call, fault] of planned) faults.plan(`${scene.controller} ${scene.key(id)}`, call, fault);
  const data = createMemoryData(cacheOf(registryOf(ownControllers(EXAMPLES.map(({ definition }) => definition)))).catalog);
  const kube = (component: string): Kube => {
    const plain = createKubeHttp({ ...access, component });
    return component === "watcher" && lateMs > 0 ? { ...plain, watch: late(plain.watch.bind(plain), clock, lateMs) } : plain;
  };
  await inTurns(trials, (trial) => open(user, trial));
  const system = await startOwnSystem({ controllers: EXAMPLES, kube, clock, faults, data });
  const losing = lossesMs.map(async (ms) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    data.epoch = undefined;
  });
  let failures: string[];
  try {
    failures = await playAll(cluster, trials, stages, Promise.all(losing));
  } finally {
    await system.stop();
  }
  failures.push(...(await wrongWrites(cluster, trials)));
  await inTurns(trials, ({ id }) => user.request("DELETE", `/api/v1/namespaces/${id}`));
  const calls = new Map(trials.map(({ id, scene }) => [id, faults.calls(`${scene.controller} ${scene.key(id)}`)]));
  return { failures, trials: trials.length, faultsOccurred: faults.occurred(), calls };
}

/** Plays the trials, whose namespaces exist, and runs `meanwhile`. @returns failures as `<trial>: <why>` */
export async function playAll(
  cluster: Cluster,
  trials: readonly Trial[],
  stages: number,
  meanwhile: Promise<unknown>,
  stageMsMax = STAGE_MS_MAX,
): Promise<string[]> {
  const user = cluster.client;
  const ended = new AbortController();
  const looking = look(user, ended.signal);
  const failures: string[] = [];
  const fail = ({ id }: Trial, why: string): void => {
    if (!failures.some((each) => each.startsWith(`${id}: `))) failures.push(`${id}: ${why}`);
  };
  try {
    await Promise.all([
      ...trials.map((trial) =>
        play(user, trial, looking.state, stages, stageMsMax).catch((error: unknown) => fail(trial, reasonOf(error))),
      ),
      meanwhile,
    ]);
    await new Promise((resolve) => setTimeout(resolve, STILL_MS));
    const last = await looking.state();
    for (const trial of trials) {
      const why = differs(trial.scene.stages.slice(0, stages).at(-1), last.of.get(trial.id), trial.scene.controller);
      if (why !== undefined) fail(trial, `afterwards ${why}`);
    }
  } finally {
    ended.abort();
    await looking.ended;
  }
  return failures;
}

/** Creates the trial's namespace, with objects of other owners. */
export async function open(user: RawClient, { id, scene, other }: Trial): Promise<void> {
  await user.request("POST", "/api/v1/namespaces", { metadata: { name: id } });
  await addBystanders(user, id);
  if (other === "takes the name" && scene.taken) await user.request("POST", pathOf(scene.taken.plural, id), scene.taken.body);
}

async function play(
  user: RawClient,
  { id, scene, other, startMs = 0 }: Trial,
  state: () => Promise<States>,
  stages: number,
  stageMsMax: number,
): Promise<void> {
  const reaches = async (stage: Stage, what: string): Promise<void> => {
    let why: string | undefined;
    await eventually(
      what,
      async () => (why = differs(stage, (await state()).of.get(id), scene.controller)) === undefined,
      stageMsMax,
    ).catch((error: unknown) => Promise.reject(new Error(`${reasonOf(error)}: ${why}`)));
  };
  await new Promise((resolve) => setTimeout(resolve, startMs));
  for (const [index, stage] of scene.stages.slice(0, stages).entries()) {
    await stage.request(user, id);
    if (index === 0 && other === "takes the name" && scene.taken) {
      const { plural, body } = scene.taken;
      const { name } = (body as Found).metadata;
      const path = pathOf(plural, id, name);
      const before = await user.request<Found>("GET", path);
      await eventually("the Event", async () => (await state()).taken.has(id), STAGE_MS_MAX);
      await new Promise((resolve) => setTimeout(resolve, NAME_TAKEN_MS));
      const after = await user.request<Found>("GET", path);
      if (!isDeepStrictEqual(before, after)) throw new Error(`${plural}/${name} of another writer was changed`);
      await user.request("DELETE", path);
    }
    await reaches(stage, `stage ${index + 1}`);
    if (index > 0) continue;
    if (other === "edits" && scene.edit) {
      await user.request("PATCH", pathOf(scene.edit.plural, id, scene.edit.name), scene.edit.patch, MERGE);
      await reaches(stage, "the edit is reverted");
    }
    if (other === "deletes" && scene.loss) {
      await user.request("DELETE", pathOf(scene.loss.plural, id, scene.loss.name));
      await reaches(stage, "the deleted object is created again");
    }
  }
}

/** Returns the difference from the stage's expected state; undefined if there is none. */
function differs(stage: Stage | undefined, state: State | undefined, controller: string): string | undefined {
  if (stage === undefined || state === undefined) return "nothing is known";
  const mine = [...state].filter(([id]) => !BYSTANDERS.test(id));
  const [wanted, found] = [Object.keys(stage.ends), mine.map(([id]) => id)].map((ids) => ids.toSorted().join(", "));
  if (wanted !== found) return `there is ${found || "nothing"} instead of ${wanted || "nothing"}`;
  const manager = managerOf(controller);
  for (const [id, object] of mine) {
    for (const [path, value] of Object.entries(stage.ends[id] ?? {})) {
      const managers = (object.metadata.managedFields ?? []).flatMap((entry) => (entry.manager === manager ? [manager] : []));
      const seen = path === "managers" ? managers : valueAt(object, path);
      if (!isDeepStrictEqual(seen, value)) return `${id} has ${path} ${JSON.stringify(seen)} instead of ${JSON.stringify(value)}`;
    }
  }
  return undefined;
}
const BYSTANDERS = /\/(?:bystander|forged-.*)$/;

const [REFUSED, UNKNOWN] = [300, 500];

/** Duplicate creates, and writes of objects that no scene owns. */
export async function wrongWrites(cluster: Cluster, trials: readonly Trial[]): Promise<readonly string[]> {
  const byId = new Map(trials.map((trial) => [trial.id, trial]));
  const created = new Map<string, number>();
  const deleted = new Map<string, number>();
  const wrong: string[] = [];
  for (const { verb, userAgent = "", objectRef, responseStatus, requestObject } of await cluster.audit()) {
    if (objectRef === undefined || ["get", "list", "watch"].includes(verb)) continue;
    const name = objectRef.name ?? requestObject?.metadata?.name ?? "";
    const id = `${objectRef.resource}/${name}`;
    const trial = byId.get(objectRef.namespace ?? "") ?? (objectRef.resource === "namespaces" ? byId.get(name) : undefined);
    const code = responseStatus?.code ?? UNKNOWN;
    // The API server logs 504 for a request whose client was killed, also if the object was deleted.
    if (verb === "delete" && trial && (code < REFUSED || code >= UNKNOWN))
      deleted.set(`${trial.id} ${id}`, (deleted.get(`${trial.id} ${id}`) ?? 0) + 1);
    if (code >= REFUSED) continue;
    const controller = /sync-([\w-]+)/.exec(userAgent)?.[1];
    if (controller === undefined || objectRef.resource === "events" || trial === undefined) continue;
    // patches of a Namespace as primary release fields that `self` set
    const isPrimary = objectRef.resource === "namespaces" && verb === "patch";
    if (trial.scene.controller !== controller || !(trial.scene.writes.includes(id) || isPrimary))
      wrong.push(`${trial.id}: ${controller} sent ${verb} of ${id}, which its primary does not own`);
    if (verb === "create") created.set(`${trial.id} ${id}`, (created.get(`${trial.id} ${id}`) ?? 0) + 1);
  }
  for (const [id, times] of created) {
    const expected = 1 + (deleted.get(id) ?? 0);
    if (times > expected) wrong.push(`${id.replace(" ", ": ")} was created ${times} times and deleted ${expected - 1} times`);
  }
  return wrong;
}

/** Lists everything repeatedly. `state()` returns lists that started after the call. */
function look(user: RawClient, signal: AbortSignal): { readonly state: () => Promise<States>; readonly ended: Promise<void> } {
  let next = Promise.withResolvers<States>();
  const listed = async (): Promise<States> => {
    const kinds = Object.keys(KINDS) as Plural[]; // its own keys
    const events = user.list<FoundEvent>("/api/v1/events");
    const lists = await Promise.all(
      kinds.map(async (plural) => (await user.list<Found>(`${KINDS[plural]}/${plural}`)).items.map((object) => [plural, object] as const)),
    );
    const of = new Map<string, State>();
    for (const [namespace, objects] of Map.groupBy(lists.flat(), ([, { metadata }]) => metadata.namespace))
      of.set(namespace, new Map(objects.map(([plural, object]) => [`${plural}/${object.metadata.name}`, object])));
    const taken = (await events).items.flatMap(({ reason, involvedObject: { namespace, name } }) =>
      reason === "NameTaken" ? [namespace ?? name] : [],
    );
    return { of, taken: new Set(taken) };
  };
  const ended = (async () => {
    while (!signal.aborted) {
      const asked = next;
      next = Promise.withResolvers();
      next.promise.catch(() => undefined); // possibly never awaited
      await listed().then(asked.resolve, asked.reject);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    next.reject(new Error("the trials have ended"));
  })();
  return { state: () => next.promise, ended };
}

export async function inTurns<T>(all: readonly T[], act: (one: T) => Promise<unknown>): Promise<void> {
  const left = [...all];
  await Promise.all(
    Array.from({ length: OPENED_AT_ONCE }, async () => {
      for (let one = left.shift(); one !== undefined; one = left.shift()) await act(one);
    }),
  );
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${String(error.cause)}` : "";
  return `${error instanceof Error ? error.message : String(error)}${cause}`;
}
