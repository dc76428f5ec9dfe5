/**
 * What the clusters of one deployment share: the clock, the queues, and the functions behind `routeRecords`. It knows for which cluster
 * each piece of work runs (an AsyncLocalStorage that follows it through all waits), and who sent each message.
 *
 * NX1 no request of one cluster's work reaches another cluster's API server
 * NX2 no work of one cluster calls another cluster's Store, except to note a forged message
 * NX3 a watcher sends messages of its own cluster only
 * NX4 a doorbell that one cluster sent is never handled by another cluster's functions
 */
import { AsyncLocalStorage } from "node:async_hooks";

import type { SQSEvent } from "aws-lambda";

import { routeRecords } from "../../../shared/controllers/lambda/clusters/route-records.ts";
import type { RouterPorts } from "../../../shared/controllers/lambda/clusters/route-records.ts";
import type { VirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { SqsHandler } from "../../../shared/controllers/lambda/sqs-handler.ts";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import { startFunctionHost } from "../../../shared/local/function-host.ts";
import type { FunctionHandlers } from "../../../shared/local/function-host.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import type { MemoryData } from "../../../shared/store/memory/store/data.ts";
import { createMemoryDeltaQueue } from "../../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryQueue } from "../../../shared/store/memory/queue/queue.ts";
import { createSqsDoorbells } from "../../../shared/store/sqs/doorbells.ts";
import { testSigner } from "../../support/signer.ts";
import { silentLog } from "../../support/silent-log.ts";
import type { Violation } from "../checks.ts";
import type { Mix } from "../faults.ts";
import type { Loss } from "../losses.ts";
import type { Backup } from "../second-cluster.ts";
import { ClusterOutages } from "./outages.ts";
import type { ClusterPart, StartedCluster } from "./part.ts";
import type { Plant } from "./plants.ts";

export interface DeploymentOptions {
  readonly clock: VirtualClock;
  readonly random: Random;
  /** The faults of the queues while `isFaulty`. */
  readonly mix: Mix;
  readonly isFaulty: () => boolean;
  readonly loss: Loss | undefined;
  readonly plant?: Plant | undefined;
  readonly seed: number;
  readonly onViolation: (violation: Violation) => void;
  readonly onCount: (what: string) => void;
}

export interface DeployedCluster {
  readonly cid: string;
  readonly part: ClusterPart;
  readonly outages: ClusterOutages;
  readonly started: () => StartedCluster;
  /** Runs `work` as work of this cluster. */
  run<T>(work: () => T): T;
}

/** Calls with which functions note that a message was forged: the only effect that a message of others may have on a cluster's Store. */
const NOTES: ReadonlySet<string> = new Set(["noteForgery"]);
const SHARE = 5;
const CONCURRENCY = 20;
const VISIBILITY_MS = 360_000;
const RECEIVE_COUNT_MAX = 5;

interface Served {
  handlers?: FunctionHandlers;
}

export class Deployment {
  readonly #options: DeploymentOptions;
  readonly #worksFor = new AsyncLocalStorage<string>();
  readonly #served = new Map<string, Served>();
  /** The cluster whose work sent each body. */
  readonly #senders = new Map<string, string>();
  readonly #sharedData = createMemoryData();
  readonly #sharedKubes = new Map<string, Kube>();
  readonly #deltas: ReturnType<typeof createMemoryDeltaQueue>;
  readonly #doorbells: { readonly [C in (typeof CONTROLLERS)[number]]: ReturnType<typeof createMemoryQueue> };

  constructor(options: DeploymentOptions) {
    this.#options = options;
    const { clock, random, mix, isFaulty } = options;
    const faults = (given: object) => () => ({ ...(isFaulty() ? given : {}), ...(mix.fifo ? {} : { reorder: 0.7 }) });
    const fork = (): Random => createSeededRandom(Math.floor(random.next() * 2 ** 32));
    this.#deltas = createMemoryDeltaQueue({ clock, random: fork(), faults: faults(mix.deltas) });
    const limits = { visibilityMs: VISIBILITY_MS, maxReceiveCount: RECEIVE_COUNT_MAX };
    this.#doorbells = tableOf(CONTROLLERS, () => createMemoryQueue({ clock, random: fork(), ...limits, faults: faults(mix.doorbells) }));
    startFunctionHost({
      sources: { deltas: this.#deltas, doorbells: this.#doorbells },
      handlers: {
        applyDeltas: this.#router("deltas", ({ applyDeltas }) => applyDeltas),
        deadDeltas: () => Promise.reject(new Error("unexpected call")),
        sync: tableOf(CONTROLLERS, (name) => this.#router("doorbells", ({ sync }) => sync[name], name)),
      },
      ...{ clock, log: silentLog, concurrency: CONCURRENCY },
    });
  }

  /** `copied`: objects that exist before the first user request. */
  add(cid: string, uids: Random, copied: Backup): DeployedCluster {
    const { clock, plant, seed, loss, isFaulty, mix } = this.#options;
    const outages = new ClusterOutages(clock);
    const signer = testSigner(plant === "oneKeyForAll" ? "every cluster" : cid);
    const data: MemoryData = plant === "keysWithoutCluster" ? this.#sharedData : createMemoryData();
    const served: Served = {};
    this.#served.set(cid, served);
    let started: StartedCluster | undefined;
    const call = async (queueUrl: string, bodies: readonly { MessageBody: string; DelaySeconds?: number }[]): Promise<object> => {
      const { unanswered = 0 } = isFaulty() ? mix.doorbells : {};
      const fails = unanswered > 0 && this.#options.random.next() < unanswered;
      for (const { MessageBody: body, DelaySeconds = 0 } of bodies) {
        if (fails && this.#options.random.next() < 0.5) continue;
        this.ring(queueUrl, body, DelaySeconds);
      }
      return await (fails ? Promise.reject(new Error("simulated: no response from the doorbells")) : Promise.resolve({}));
    };
    const sqs = { call: async (_verb: string, { QueueUrl, Entries }: SendBatch) => await call(QueueUrl, Entries) };
    const part: ClusterPart = {
      ...{ cid, clock, data, signer, outages, uids, loss, lossSeed: seed, fifo: mix.fifo, processes: new Set() },
      queue: {
        ...this.#deltas,
        send: async (entries) => {
          for (const { body, group } of entries) {
            if (!body.startsWith(`${cid}.`) || !group.startsWith(`${cid}.`))
              this.#bad("NX3", `a message of ${cid} is for ${group}: ${body.slice(0, 40)}`);
            this.#sent(body);
          }
          return await this.#deltas.send(entries);
        },
        size: () => this.#deltas.size((body) => body.startsWith(`${cid}.`)),
        deadLetters: () => this.#deltas.deadLetters().filter(({ body }) => body.startsWith(`${cid}.`)),
      },
      doorbells: {
        sources: this.#doorbells,
        // The calls of the SQS client that doorbells make.
        ring: (bells) => createSqsDoorbells(sqs as never, { queueUrls: QUEUE_URLS, cid, signer }).ring(bells),
      },
      start: (cluster) => {
        started = cluster;
        for (const { resource, objects } of copied) for (const object of objects) cluster.server.place(resource, object);
      },
      serve: (handlers) => (served.handlers = handlers),
      requested: ({ userAgent, verb, resource, name }) => {
        if (!userAgent.startsWith("deltaloop-")) return;
        this.#options.onCount("requests checked");
        const worksFor = this.#worksFor.getStore();
        if (worksFor !== cid) this.#bad("NX1", `work of ${worksFor} sent to ${cid}: ${userAgent} ${verb} ${resource} ${name}`);
      },
      touched: (verb) => {
        const worksFor = this.#worksFor.getStore();
        if (worksFor !== cid && !NOTES.has(verb)) this.#bad("NX2", `work of ${worksFor} called ${verb} of the Store of ${cid}`);
      },
      overKube: (component, kube) => {
        if (plant !== "clientsByComponent") return kube;
        const cached = this.#sharedKubes.get(component) ?? kube;
        this.#sharedKubes.set(component, cached);
        return cached;
      },
    };
    return {
      ...{ cid, part, outages },
      started: () => started ?? expectStarted(cid),
      run: (work) => this.#worksFor.run(cid, work),
    };
  }

  /** Puts a message on the delta queue as the present work, unless the queue loses it. */
  async send(entry: { readonly group: string; readonly id: string; readonly body: string }): Promise<void> {
    this.#sent(entry.body);
    await this.#deltas.send([entry]).catch(() => undefined);
  }

  /** Puts a message on a queue of doorbells as the present work. */
  ring(queueUrl: string, body: string, delaySeconds: number): void {
    const controller = CONTROLLERS.find((name) => QUEUE_URLS[name] === queueUrl);
    if (controller === undefined) throw new Error(queueUrl);
    this.#sent(body);
    this.#doorbells[controller].put({ body, delayMs: delaySeconds * 1_000 });
  }

  #sent(body: string): void {
    const worksFor = this.#worksFor.getStore();
    if (worksFor !== undefined && !this.#senders.has(body)) this.#senders.set(body, worksFor);
  }

  #router(
    records: RouterPorts["records"],
    handlerOf: (handlers: FunctionHandlers) => SqsHandler,
    controller?: (typeof CONTROLLERS)[number],
  ): SqsHandler {
    const { plant } = this.#options;
    return routeRecords({
      ...{ records, clock: this.#options.clock, log: silentLog },
      share: {
        most: SHARE,
        postpone: async (_cid, bodies) => {
          for (const body of bodies) if (controller) this.#doorbells[controller].put({ body, delayMs: 1_000 });
          await Promise.resolve();
        },
      },
      functionOf: async (cid) => {
        const { handlers } = await Promise.resolve(this.#served.get(cid) ?? {});
        if (!handlers) return "missing";
        const handler = handlerOf(handlers);
        const signer = testSigner(plant === "oneKeyForAll" ? "every cluster" : cid);
        return {
          signer: plant === "unsignedDoorbells" ? { verify: () => "current" } : signer,
          handler: async (event, context) => {
            const sender = this.#senderOf(event);
            if (records === "doorbells") {
              this.#options.onCount("doorbells checked");
              if (sender !== cid) this.#bad("NX4", `a doorbell of ${sender} was handled by the functions of ${cid}`);
            }
            return await this.#worksFor.run(sender ?? cid, async () => await handler(event, context));
          },
        };
      },
    });
  }

  /** The cluster whose work sent the records. A batch with genuine messages is the addressed cluster's work. */
  #senderOf({ Records }: SQSEvent): string | undefined {
    const senders = new Set(Records.map(({ body }) => this.#senders.get(body)));
    const addressed = Records[0]?.body.split(".")[0];
    return senders.size > 1 && senders.has(addressed) ? addressed : [...senders][0];
  }

  #bad(rule: string, what: string): void {
    this.#options.onViolation({ rule, atMs: this.#options.clock.now(), what });
  }
}

interface SendBatch {
  readonly QueueUrl: string;
  readonly Entries: readonly { readonly MessageBody: string; readonly DelaySeconds?: number }[];
}

export const QUEUE_URLS = tableOf(CONTROLLERS, (name) => `memory:${name}`);

function expectStarted(cid: string): never {
  throw new Error(`${cid} has not started`);
}
