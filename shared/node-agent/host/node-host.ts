/**
 * Runs the functions of a node (node-agent §18): queues in front of the handlers, periodic tasks, and the due times of probes.
 *
 * NH1 the host makes no decisions, and all of its state can be restored from CRI, the API server or the manifests.
 * NH2 a periodic task never overlaps itself. A failed task is retried after its period; a repeated error is logged once.
 * NH3 messages for one pod are handled one at a time; different pods are handled in parallel (pod-queue.ts).
 * NH4 a probe waits only for its own previous run. Probes share no concurrency limit, because one pod with hanging probes
 *    could exhaust it.
 */
import type { NodeHandler, NodeQueue } from "../kubelet/node-ports/node-ports.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { NodeStore } from "../ports/node-store.ts";
import type { DueWatch } from "./due-watch.ts";
import { PodQueue } from "./pod-queue.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** The queues exist before the handlers, because handlers send messages to them. */
export type NodeQueues = { readonly [Q in NodeQueue]: PodQueue };

export interface NodeHandlers {
  readonly queues: { readonly [Q in NodeQueue]: NodeHandler };
  /** Runs the probe `key`, which was due at `dueMs`. */
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
  readonly log: Log;
  /** Reports when probes are due. */
  readonly due: Pick<DueWatch, "next">;
}

/** More than twice the number of pods of a node, because a waiting sync iteration is cheap and must not delay other pods. */
const SYNCS_MAX = 256;
const FLUSHES_MAX = 8;
/** Delay of a probe whose previous run is still in progress. */
const PROBE_BUSY_MS = 1_000;
const END_MS_MAX = 5_000;

export function createNodeQueues(ports: Pick<NodeHostPorts, "clock" | "log">): NodeQueues {
  return {
    pods: new PodQueue({ ...ports, name: "pod-sync", concurrencyMax: SYNCS_MAX }),
    statuses: new PodQueue({ ...ports, name: "pod-status", concurrencyMax: FLUSHES_MAX }),
  };
}

/** Runs until `signal` aborts, and then waits up to 5 s for running handlers. */
export async function runNodeHost(ports: NodeHostPorts, queues: NodeQueues, handlers: NodeHandlers, signal: AbortSignal): Promise<void> {
  const { clock, log, store, due } = ports;
  queues.pods.start(handlers.queues.pods);
  queues.statuses.start(handlers.queues.statuses);
  const running = new Map<string, Promise<void>>();
  const probes: Repeated = {
    name: "probes",
    rest: () => due.next(signal),
    act: async () => {
      const agenda = await store.agenda("probes");
      for (const key of await store.takeDue("probes", clock.now())) {
        if (running.has(key)) {
          await store.schedule("probes", key, clock.now() + PROBE_BUSY_MS);
          continue;
        }
        const run = handlers
          .podProbe(key, agenda.get(key) ?? clock.now())
          .catch((error: unknown) => log.warn("failed to run probe", { probe: key, error: String(error) }))
          .finally(() => running.delete(key));
        running.set(key, run);
      }
    },
  };
  const ticks = handlers.ticks.map(({ everyMs, ...tick }): Repeated => {
    const rest = (startedMs: number): Promise<void> => clock.after(Math.max(0, everyMs - (clock.now() - startedMs)), signal);
    return { ...tick, rest };
  });
  const ended = Promise.all([...ticks, probes].map((one) => repeat(ports, one, signal))).then(() =>
    Promise.all([queues.pods.stop(), queues.statuses.stop(), ...running.values()]),
  );
  await new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));
  // Running calls to other systems may hang, so the wait is bounded.
  await Promise.race([ended, clock.after(END_MS_MAX)]);
}

interface Repeated extends Omit<Tick, "everyMs"> {
  /** Resolves when the next run is due. */
  readonly rest: (startedMs: number) => Promise<void>;
}

async function repeat({ clock, log }: NodeHostPorts, { name, act, rest }: Repeated, signal: AbortSignal): Promise<void> {
  let lastError = "";
  while (!signal.aborted) {
    const startedMs = clock.now();
    try {
      await act();
      lastError = "";
    } catch (error) {
      const text = messageOf(error);
      if (text !== lastError) log.warn("periodic task failed, retrying", { what: name, error: text });
      lastError = text;
    }
    await rest(startedMs).catch(() => undefined);
  }
}
