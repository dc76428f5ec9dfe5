/** The doorbell queues in memory: one standard queue per controller, for tests, replay and simulation. */
import { BUILT_IN, tableOf } from "@deltaloop/kube/objects";
import type { Catalog, ControllerName } from "@deltaloop/kube/objects";
import type { Clock, Random } from "@deltaloop/base";
import type { MessageSource, ReceivedMessage } from "../../ports/delta-queue.ts";
import type { Doorbell, DoorbellMessage, Doorbells } from "../../ports/doorbells.ts";
import { UnansweredError } from "@deltaloop/kube/client";
import { RUNG_WITHIN_MS } from "@deltaloop/base";
import { createMemoryQueue } from "./queue.ts";
import type { QueueFaults, QueueOptions } from "./queue.ts";

export interface DoorbellFaults extends QueueFaults {
  /** Probability that the call fails; each doorbell may or may not have been rung. */
  readonly unanswered?: number;
}

export interface MemoryDoorbellsOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** The controllers that have a queue. Default: the built-in controllers. */
  readonly catalog?: Catalog;
  /** Cluster id. */
  readonly cluster: string;
  /** Default 360 s. */
  readonly visibilityMs?: number;
  /** Default 5. */
  readonly maxReceiveCount?: number;
  /** Does not send doorbells with a long delay, as on SQS (DB3). If absent, sends all doorbells, for tests without a sweeper. */
  readonly leavesLate?: boolean;
  /** Evaluated at each use; none by default. `drop` loses a doorbell. */
  readonly faults?: () => DoorbellFaults;
  /** Called for each message that is repeated, delayed or lost. */
  readonly onFault?: QueueOptions["onFault"];
}

export interface MemoryDoorbells extends Doorbells {
  /** The queue of each controller's workers. */
  readonly sources: { readonly [C in ControllerName]: MessageSource };
  deadLetters(controller: ControllerName): readonly ReceivedMessage[];
  /** Doorbells that are not yet acknowledged. */
  size(controller: ControllerName): number;
}

const VISIBILITY_MS = 360_000;
const RECEIVE_COUNT_MAX = 5;
const DELAY_SECONDS_MAX = 900;

export function createMemoryDoorbells(options: MemoryDoorbellsOptions): MemoryDoorbells {
  const {
    clock,
    random,
    catalog = BUILT_IN,
    cluster,
    faults = (): DoorbellFaults => ({}),
    onFault,
    visibilityMs = VISIBILITY_MS,
    maxReceiveCount = RECEIVE_COUNT_MAX,
    leavesLate = false,
  } = options;
  const queues = tableOf(catalog.controllers, () =>
    createMemoryQueue({ clock, random, visibilityMs, maxReceiveCount, faults, ...(onFault && { onFault }) }),
  );
  return {
    sources: queues,
    deadLetters: (controller) => queues[controller]?.deadLetters() ?? [],
    size: (controller) => queues[controller]?.size() ?? 0,
    async ring(bells) {
      const { unanswered = 0 } = faults();
      const fails = unanswered > 0 && random.next() < unanswered;
      const rung = leavesLate ? bells.filter((bell) => bell.delayMs <= RUNG_WITHIN_MS) : bells;
      for (const controller of catalog.controllers) {
        const here = rung.filter((bell) => bell.controller === controller && !(fails && random.next() < 1 / 2));
        for (const bell of here) queues[controller]?.put({ body: JSON.stringify(message(cluster, bell)), delayMs: delayMs(bell) });
      }
      if (fails) throw new UnansweredError("no response from the doorbells");
    },
  };
}

function message(cluster: string, { controller, key, uid, owner, epoch }: Doorbell): DoorbellMessage {
  return {
    v: 1,
    c: cluster,
    ctl: controller,
    e: epoch,
    k: key,
    ...(uid !== undefined && { u: uid }),
    ...(owner !== undefined && { o: owner }),
  };
}

/**
 * The delay as SQS supports it, in whole seconds up to 900. A shorter delay is delivered at once, and the worker waits (informer §12.3).
 */
function delayMs(bell: Doorbell): number {
  return bell.delayMs < 1_000 ? 0 : Math.min(Math.ceil(bell.delayMs / 1_000), DELAY_SECONDS_MAX) * 1_000;
}
