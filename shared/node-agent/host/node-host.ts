/**
 * The host of a node's functions (node-agent §18): queues in front of the handlers, and what only a process on the node can bring:
 * ticks, and the due times of probes.
 *
 * NH1 the host decides nothing and keeps nothing that CRI, the API server or the manifests do not know.
 * NH2 a tick that takes longer than its period is not started twice; one that fails is logged, once while the reason stays, and
 *    comes again.
 * NH3 messages of one pod are handled one at a time, pods in parallel (pod-queue.ts).
 * NH4 a probe waits only for its own last run. Concurrency has no shared limit, because a single pod with hanging probes
 *    could exhaust it.
 */
import type { NodeHandler, NodeQueue } from "../kubelet/node-ports/node-ports.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { NodeStore } from "../ports/node-store.ts";
import type { DueWatch } from "./due-watch.ts";
import { PodQueue } from "./pod-queue.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Made before the handlers, which send. */
export type NodeQueues = { readonly [Q in NodeQueue]: PodQueue };

export interface NodeHandlers {
  /** What takes the messages of each queue. */
  readonly turns: { readonly [Q in NodeQueue]: NodeHandler };
  /** One run of the probe `key`, which was due at `dueMs`. */
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
  /** Of probes. */
  readonly due: Pick<DueWatch, "next">;
}

/** More than twice the pods of a node: a turn that waits costs nothing, and must not keep others waiting. */
const SYNCS_MAX = 256;
const FLUSHES_MAX = 8;
/** A probe that still runs when it is due again is looked at once more after this. */
const PROBE_BUSY_MS = 1_000;
const END_MS_MAX = 5_000;

export function createNodeQueues(ports: Pick<NodeHostPorts, "clock" | "log">): NodeQueues {
  return {
    pods: new PodQueue({ ...ports, name: "pod-sync", concurrencyMax: SYNCS_MAX }),
    statuses: new PodQueue({ ...ports, name: "pod-status", concurrencyMax: FLUSHES_MAX }),
  };
}

/** Runs until `signal` aborts and what runs then has ended, or 5 s have passed. */
export async function runNodeHost(ports: NodeHostPorts, queues: NodeQueues, handlers: NodeHandlers, signal: AbortSignal): Promise<void> {
  const { clock, log, store, due } = ports;
  queues.pods.start(handlers.turns.pods);
  queues.statuses.start(handlers.turns.statuses);
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
        const turn = handlers
          .podProbe(key, agenda.get(key) ?? clock.now())
          .catch((error: unknown) => log.warn("a probe's turn failed", { probe: key, error: String(error) }))
          .finally(() => running.delete(key));
        running.set(key, turn);
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
  // A killed host does not wait for pending calls to other systems.
  await Promise.race([ended, clock.after(END_MS_MAX)]);
}

interface Repeated extends Omit<Tick, "everyMs"> {
  /** Until it is time again. */
  readonly rest: (startedMs: number) => Promise<void>;
}

async function repeat({ clock, log }: NodeHostPorts, { name, act, rest }: Repeated, signal: AbortSignal): Promise<void> {
  let said = "";
  while (!signal.aborted) {
    const startedMs = clock.now();
    try {
      await act();
      said = "";
    } catch (error) {
      const text = messageOf(error);
      if (text !== said) log.warn("failed, and is tried again", { what: name, error: text });
      said = text;
    }
    await rest(startedMs).catch(() => undefined);
  }
}
