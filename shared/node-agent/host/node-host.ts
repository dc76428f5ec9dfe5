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
import { createMemoryQueue } from "../../adapters/memory/queue/queue.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { NodeStore } from "../../ports/node-store.ts";
import type { Random } from "../../ports/random.ts";
import type { NodeQueue } from "../../kubelet/node-ports.ts";
import { startEventSourceMapping } from "../../local/event-source-mapping.ts";

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
type NodeQueueOfUids = ReturnType<typeof createMemoryQueue>;

export interface NodeQueues {
  readonly send: (queue: NodeQueue, uid: string, reason: string) => void;
  readonly sources: { readonly [Q in NodeQueue]: NodeQueueOfUids };
}

const VISIBILITY_MS = 120_000;
/** A turn hardly waits for what takes long, and its other steps have limits of their own. */
const TURN_TIMEOUT_MS = 110_000;
/** More than twice the pods of a node: a turn that waits costs nothing, and must not keep others waiting. */
const TURNS_MAX = 256;
const FLUSHES_MAX = 8;
const PROBE_TICK_MS = 100;
const PROBES_MAX = 256;
/** A probe that still runs when it is due again is looked at once more after this. */
const PROBE_BUSY_MS = 1_000;
const END_MS_MAX = 5_000;
/** Redelivery of a message that nobody settles ends some day; due times bring the work again. */
const RECEIVES_MAX = 5;

export function createNodeQueues({ clock, random }: Pick<NodeHostPorts, "clock" | "random">): NodeQueues {
  const queue = (): NodeQueueOfUids => {
    const inner = createMemoryQueue({ clock, random, visibilityMs: VISIBILITY_MS, maxReceiveCount: RECEIVES_MAX });
    // A message says "look": one that waits says it for all that came after it.
    const waiting = new Set<string>();
    return {
      ...inner,
      put(message) {
        const { group = "" } = message;
        if (waiting.has(group)) return;
        waiting.add(group);
        inner.put(message);
      },
      async receive(options) {
        const batch = await inner.receive(options);
        for (const { group = "" } of batch) waiting.delete(group);
        return batch;
      },
    };
  };
  const sources = { pods: queue(), statuses: queue() };
  return {
    sources,
    send: (name, uid, reason) => sources[name].put({ group: uid, body: JSON.stringify({ uid, reason, enqueuedAtMs: clock.now() }) }),
  };
}

/** Runs until `signal` aborts and what runs then has ended, or 5 s have passed. */
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
  const running = new Map<string, Promise<void>>();
  const probes: Tick = {
    name: "probes",
    everyMs: PROBE_TICK_MS,
    act: async () => {
      const agenda = await store.agenda("probes");
      for (const key of await store.takeDue("probes", clock.now())) {
        if (running.has(key) || running.size >= PROBES_MAX) {
          await store.schedule("probes", key, clock.now() + PROBE_BUSY_MS);
          continue;
        }
        const turn = handlers
          .podProbe(key, agenda.get(key) ?? clock.now())
          .catch((error: unknown) => log.warn("a probe's turn failed", { probe: key, error: String(error) }))
          .finally(() => running.delete(key));
        running.set(key, turn);
      }
    },
  };
  const ended = Promise.all([...handlers.ticks, probes].map((tick) => repeat(ports, tick, signal))).then(() =>
    Promise.all([...mappings.map((one) => one.stop()), ...running.values()]),
  );
  await new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));
  // Whatever hangs in a call to somebody else is not waited for: a killed host leaves no more behind.
  await Promise.race([ended, clock.after(END_MS_MAX)]);
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
