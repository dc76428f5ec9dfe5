/**
 * The host of a node's functions (node-agent §18): the same handlers as anywhere, behind the local event source mapping, and what
 * only a process on the node can bring: ticks, the sources' I/O, the runtime's socket.
 *
 * H1 the host decides nothing and keeps nothing that CRI, the API server or the manifests do not know.
 * H2 a tick that takes longer than its period is not started twice; one that fails is logged, once while the reason stays, and
 *    comes again.
 * H3 messages of one pod are handled one at a time, pods in parallel.
 */
import type { SqsHandler } from "../../lambda/sqs-handler.ts";
import { createMemoryQueue } from "../../adapters/memory/queue.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { NodeStore } from "../../ports/node-store.ts";
import type { Random } from "../../ports/random.ts";
import type { NodeQueue } from "../../kubelet/node-ports.ts";
import { startEventSourceMapping } from "../event-source-mapping.ts";

export interface NodeHandlers {
  readonly podSync: SqsHandler;
  readonly podStatus: SqsHandler;
  readonly podProbe: (key: string, dueMs: number) => Promise<void>;
  readonly ticks: readonly Tick[];
}

export interface Tick {
  readonly name: string;
  readonly everyMs: number;
  readonly act: () => Promise<void>;
}

export interface NodeHostPorts {
  readonly store: NodeStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** Messages to the node's own queues; made before the handlers, which send. */
export interface NodeQueues {
  readonly send: (queue: NodeQueue, uid: string, reason: string) => void;
  readonly sources: { readonly [Q in NodeQueue]: ReturnType<typeof createMemoryQueue> };
}

const VISIBILITY_MS = 120_000;
/** A turn waits 20 s at most for what takes long, and its other steps have limits of their own. */
const TURN_TIMEOUT_MS = 110_000;
const TURNS_MAX = 32;
const FLUSHES_MAX = 8;
const PROBE_TICK_MS = 100;
const PROBES_MAX = 64;
/** Redelivery of a message that nobody settles ends some day; due times bring the work again. */
const RECEIVES_MAX = 5;

export function createNodeQueues({ clock, random }: Pick<NodeHostPorts, "clock" | "random">): NodeQueues {
  const queue = (): ReturnType<typeof createMemoryQueue> =>
    createMemoryQueue({ clock, random, visibilityMs: VISIBILITY_MS, maxReceiveCount: RECEIVES_MAX });
  const sources = { pods: queue(), statuses: queue() };
  return {
    sources,
    send: (name, uid, reason) => sources[name].put({ group: uid, body: JSON.stringify({ uid, reason, enqueuedAtMs: clock.now() }) }),
  };
}

/** Runs until `signal` aborts and what runs then has ended. */
export async function runNodeHost(ports: NodeHostPorts, queues: NodeQueues, handlers: NodeHandlers, signal: AbortSignal): Promise<void> {
  const { clock, log, store } = ports;
  const mapping = (functionName: string, source: NodeQueue, handler: SqsHandler, maximumConcurrency: number) =>
    startEventSourceMapping(
      { source: queues.sources[source], clock, log },
      {
        functionName,
        queueArn: `arn:aws:sqs:us-east-1:000000000000:${functionName}.fifo`,
        handler,
        batchSize: 1,
        maximumConcurrency,
        timeoutMs: TURN_TIMEOUT_MS,
      },
    );
  const mappings = [
    mapping("pod-sync", "pods", handlers.podSync, TURNS_MAX),
    mapping("pod-status", "statuses", handlers.podStatus, FLUSHES_MAX),
  ];
  const running = new Set<Promise<void>>();
  const probes: Tick = {
    name: "probes",
    everyMs: PROBE_TICK_MS,
    act: async () => {
      const agenda = await store.agenda("probes");
      for (const key of await store.takeDue("probes", clock.now())) {
        while (running.size >= PROBES_MAX) await Promise.race(running);
        const turn = handlers
          .podProbe(key, agenda.get(key) ?? clock.now())
          .catch((error: unknown) => log.warn("a probe's turn failed", { probe: key, error: String(error) }))
          .finally(() => running.delete(turn));
        running.add(turn);
      }
    },
  };
  await Promise.all([...handlers.ticks, probes].map((tick) => repeat(ports, tick, signal)));
  await Promise.all([...mappings.map((one) => one.stop()), ...running]);
}

async function repeat({ clock, log }: NodeHostPorts, { name, everyMs, act }: Tick, signal: AbortSignal): Promise<void> {
  let said = "";
  while (!signal.aborted) {
    const startedMs = clock.now();
    try {
      await act();
      said = "";
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (text !== said) log.warn("failed, and is tried again", { what: name, error: text });
      said = text;
    }
    await clock.after(Math.max(0, everyMs - (clock.now() - startedMs)), signal).catch(() => undefined);
  }
}
