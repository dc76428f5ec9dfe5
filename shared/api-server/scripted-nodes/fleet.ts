import { createSlots } from "@deltaloop/base";
import type { Clock, Random } from "@deltaloop/base";
import { CALLS_AT_ONCE_MAX } from "@deltaloop/kube/client";
import type { Kube } from "@deltaloop/kube/client";

export interface ScriptedNodesOptions {
  readonly count: number;
  readonly clock: Clock;
  readonly random: Random;
  /** True only without a scheduler. */
  readonly bindPods: boolean;
  /** Range of the delay from Pending to Ready. */
  readonly readyAfterMs?: readonly [min: number, max: number];
  /** Pods that start and never become ready. */
  readonly staysUnready?: (pod: object) => boolean;
  /** Range of the delay from the deletion to Succeeded, and again to the pod's removal. */
  readonly deleteAfterMs?: readonly [min: number, max: number];
}

/** Common state of the nodes and their pods. */
export interface Fleet {
  readonly kube: Kube;
  readonly options: ScriptedNodesOptions;
  readonly signal: AbortSignal;
  /** The nodes' names, by index. */
  readonly names: readonly string[];
  /** The current time in the API server's format. */
  now(): string;
  /** Runs a task; limits concurrent tasks to the client's connections. */
  inTurn<T>(task: () => Promise<T>): Promise<T>;
  /** Returns false if the signal ended the wait. */
  wait(ms: number): Promise<boolean>;
}

export function createFleet(kube: Kube, options: ScriptedNodesOptions, signal: AbortSignal): Fleet {
  const { clock, count } = options;
  const slots = createSlots(CALLS_AT_ONCE_MAX);
  return {
    kube,
    options,
    signal,
    names: Array.from({ length: count }, (_, index) => `scripted-${index}`),
    now: () => new Date(clock.now()).toISOString().replace(/\.\d{3}Z$/u, "Z"),
    async inTurn(task) {
      const release = await slots.acquire(signal);
      try {
        return await task();
      } finally {
        release();
      }
    },
    async wait(ms) {
      try {
        await clock.after(ms, signal);
        return true;
      } catch (error) {
        if (!signal.aborted) throw error;
        return false;
      }
    },
  };
}
