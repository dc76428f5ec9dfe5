/**
 * The Deployment and ReplicaSet controllers on one Store and one in-memory API server, run key by key, with a function that is killed at
 * one of its calls. Another function takes over its key when the lease has expired, on a cache that lacks its last writes.
 *
 * A function is killed just before a call (an API write, a Store verb) is sent, or after it was executed and before its response is
 * received. Its other calls in flight are still executed. After that, the function does nothing.
 */
import { isBuiltIn } from "../../../shared/kube/objects/resources.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import { runKey } from "../../../shared/controllers/kit/sync/worker.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import type { SyncHandler } from "../../../shared/controllers/kit/sync/session.ts";
import { syncDeployment } from "../../../shared/controllers/deployment/sync/sync.ts";
import type { KubeReader, KubeWriter } from "../../../shared/kube/client/kube.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { LEASE_MS } from "../../../shared/base/times.ts";
import { syncReplicaSet } from "../../../shared/controllers/replicaset/sync.ts";
import type { LiveObject, ScriptedApi } from "../../support/scripted-api.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";

/** The call of the whole run at which a function is killed. */
export interface Death {
  readonly call: number;
  readonly when: "before" | "after";
}

const EPOCH = "epoch-1";
const HANDLERS = { deployment: syncDeployment, replicaset: syncReplicaSet } as const satisfies Readonly<Record<string, SyncHandler>>;
type Controller = keyof typeof HANDLERS;
const CONTROLLERS: readonly Controller[] = ["deployment", "replicaset"];
const ROUNDS_MAX = 400;
const READY = { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-03-01T10:00:00Z" }] };

export class CrashRig {
  readonly world: SyncHarness;
  /** The number of calls so far, except Events, which change no object. */
  calls = 0;
  deaths = 0;
  /** The calls at which functions are killed, in order. */
  readonly #deaths: readonly Death[];
  readonly #check: () => void;

  private constructor(world: SyncHarness, deaths: readonly Death[], check: (rig: CrashRig) => void) {
    this.world = world;
    this.#deaths = deaths;
    this.#check = () => check(this);
  }

  static async create(deaths: readonly Death[] = [], check: (rig: CrashRig) => void = () => undefined): Promise<CrashRig> {
    return new CrashRig(await SyncHarness.create({ controller: "deployment" }), deaths, check);
  }

  get api(): ScriptedApi {
    return this.world.api;
  }

  /** ReplicaSets of the Deployment, oldest first. */
  get replicaSets(): readonly LiveObject[] {
    return this.api.all("replicasets");
  }

  get activePods(): readonly LiveObject[] {
    return this.world.pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  /**
   * Runs one round: delivers changes, makes new pods ready, and runs each due key.
   * @returns whether there was anything to do
   */
  async round(): Promise<boolean> {
    await this.world.stream();
    const fresh = this.activePods.filter(({ status }) => status?.["phase"] !== "Running");
    for (const { metadata } of fresh) await this.api.change("pods", metadata.name, () => ({ status: READY }));
    await this.world.stream();
    const due = await this.#due();
    for (const { controller, key } of due) await this.#run(controller, key);
    return fresh.length + due.length > 0;
  }

  /** Runs rounds until nothing changes any more, no lease is held and nothing is pending. */
  async settle(): Promise<void> {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      if (await this.round()) continue;
      if ((await this.#queued()) === 0) return;
      await this.#sweep();
    }
    throw new Error("does not settle");
  }

  /** Lets leases expire and runs due keys before the stream delivers the writes of a killed run. */
  async #sweep(): Promise<void> {
    await this.world.clock.advance(LEASE_MS + 1_000);
    await this.world.heartbeat();
    for (const { controller, key } of await this.world.store.sweep(EPOCH))
      if (isBuiltIn(controller) && controller !== "replicationcontroller") await this.#run(controller, key);
  }

  async #queued(): Promise<number> {
    return (await Promise.all(CONTROLLERS.map((controller) => this.world.store.queued(controller)))).flat().length;
  }

  async #due(): Promise<readonly { readonly controller: Controller; readonly key: string }[]> {
    const nowMs = this.world.clock.now();
    const queued = await Promise.all(
      CONTROLLERS.map(async (controller) => (await this.world.store.queued(controller)).map((entry) => ({ ...entry, controller }))),
    );
    return queued
      .flat()
      .filter(({ readyAtMs, leaseUntilMs }) => readyAtMs !== undefined && readyAtMs <= nowMs && (leaseUntilMs ?? 0) <= nowMs);
  }

  /** One invocation, until it ends or is killed. */
  async #run(controller: Controller, key: string): Promise<void> {
    const { ports, clock } = this.world;
    const life = { dead: false, ended: false };
    const died = Promise.withResolvers<undefined>();
    const never = new Promise<never>(() => undefined);
    const call = async <T>(execute: () => Promise<T>): Promise<T> => {
      if (life.dead) return never;
      const number = ++this.calls;
      const death = this.#deaths.find((each) => each.call === number);
      const die = (): Promise<never> => {
        if (!life.dead) this.deaths++;
        life.dead = true;
        died.resolve(undefined);
        return never;
      };
      if (death?.when === "before") return die();
      try {
        return await execute();
      } finally {
        this.#check();
        if (death !== undefined) await die();
        if (life.dead) await never;
      }
    };
    const api: KubeReader & KubeWriter = {
      get: (...given) => (life.dead ? never : this.api.get(...given)),
      list: (...given) => (life.dead ? never : this.api.list(...given)),
      create: (request) => (request.resource === "events" ? this.api.create(request) : call(() => this.api.create(request))),
      patch: (request) => call(() => this.api.patch(request)),
      delete: (request) => call(() => this.api.delete(request)),
      replace: (request) => call(() => this.api.replace(request)),
    };
    const store = new Proxy(this.world.store, {
      get(target, verb: keyof Store) {
        const value = target[verb] as (...given: unknown[]) => Promise<unknown>; // all members of a Store are methods
        return (...given: unknown[]) => call(() => value.apply(target, given));
      },
    });
    const own = { ...ports, store, reader: api, gateway: builtInGateway(api, controller, "act") };
    const run = runKey(own, controller, { controller, key, epoch: EPOCH, delayMs: 0 }, inSession(HANDLERS[controller])).finally(
      () => (life.ended = true),
    );
    const over = Promise.race([run, died.promise]);
    for (let turns = 0; !life.ended && !life.dead; turns++) await clock.advance(turns < 100 ? 0 : 100);
    await over;
    if (life.dead) await this.#sweep();
  }
}
