/**
 * Graceful node shutdown (node-agent §14.8): the machine's shutdown waits while pods end, those of low priority first.
 *
 * GS1 while no shutdown is under way a lock is held; one that begins waits until the pods have gone, and no longer.
 * GS2 from then on the node is not Ready and takes no pod, until the shutdown is called off.
 * GS3 groups of pods end one after the other, each within its own seconds.
 *
 * Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go, nodeshutdown_manager.go. Differs from upstream: a watch that cannot
 * begin is tried again; one that begins hears how it is, so that what happened meanwhile counts; a shutdown that is called off spares
 * the groups whose turn has not come.
 */
import { messageOf } from "@deltaloop/kube/objects";
import type { InhibitLock, Logind } from "../../ports/logind.ts";
import type { AbnormalTermination } from "../../ports/node-store.ts";
import { nodeReference } from "../events/event-recorder.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { groupByPriority, periodRequestedMs, shutdownGraceSeconds } from "./grace-periods.ts";
import type { ShutdownGroup } from "./grace-periods.ts";
import { readShutdownState, SHUTDOWN_STATE_FILE, writtenShutdownState } from "./shutdown-state.ts";
import type { ShutdownState } from "./shutdown-state.ts";
import type { NodePod } from "../types/pod.ts";
import { activePodsOf } from "../allocation/admission-input.ts";
import { updateWorker } from "../pod-workers/update-worker.ts";
import type { WakePorts } from "../pod-workers/update-worker.ts";

type NodeShutdownPorts = WakePorts & Pick<NodePorts, "files" | "log" | "metrics" | "record" | "options">;

const TERMINATED: AbnormalTermination = {
  phase: "Failed",
  reason: "Terminated",
  message: "Pod was terminated in response to imminent node shutdown.",
  isDisruption: true,
  unlessSucceeded: true,
};
/** Source: nodeshutdown_manager_linux.go dbusReconnectPeriod. Longer each time on a machine that has nobody to ask. */
const RECONNECT_MS = 1_000;
const RECONNECT_MS_MAX = 60_000;
/** Doubled each time. Source: nodeshutdown_manager_linux.go start. */
const OVERRIDE_MS = 100;
const OVERRIDE_LOOKS = 5;
/** How often it is looked whether pods have gone. */
const LOOK_MS = 250;

export interface NodeShutdownParts {
  readonly logind: Logind;
  readonly reportStatus: () => Promise<void>;
}

export class NodeShutdown {
  readonly #ports: NodeShutdownPorts;
  readonly #parts: NodeShutdownParts;
  /** As it was told last; what is done about it may still be under way. */
  #isShuttingDown = false;
  #handled: Promise<void> = Promise.resolve();
  #lock: InhibitLock | undefined;

  constructor(ports: NodeShutdownPorts, parts: NodeShutdownParts) {
    this.#ports = ports;
    this.#parts = parts;
  }

  /** Until `signal` aborts; at once where pods are given no time. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, options } = this.#ports;
    if (options.shutdown === undefined || options.shutdown.length === 0) return;
    await this.#showLast();
    let [pauseMs, said] = [RECONNECT_MS, ""];
    while (!signal.aborted) {
      try {
        await this.#watch(signal, () => ([pauseMs, said] = [RECONNECT_MS, ""]));
      } catch (error) {
        const message = messageOf(error);
        if (message !== said) log.error("a shutdown of this machine would not be noticed", { error: message });
        said = message;
      }
      await clock.after(pauseMs, signal).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, RECONNECT_MS_MAX);
    }
    await this.#handled;
    await this.#release();
  }

  /** @throws what ends the watch, or keeps it from being one */
  async #watch(signal: AbortSignal, isWatching: () => void): Promise<void> {
    await this.#extendInhibitDelay(signal);
    const failure = new AbortController();
    const ends = AbortSignal.any([signal, failure.signal]);
    const fail = (error: unknown): void => failure.abort(error);
    const tell = (isShuttingDown: boolean): void => {
      this.#isShuttingDown = isShuttingDown;
      const handle = async (): Promise<void> => {
        await (isShuttingDown ? this.#shutDown(signal) : this.#stayUp(fail));
        isWatching();
      };
      this.#handled = this.#handled.then(handle).catch(fail);
    };
    try {
      await this.#parts.logind.watchShutdown(tell, ends);
      failure.signal.throwIfAborted();
    } finally {
      fail(undefined);
    }
  }

  async #extendInhibitDelay(signal: AbortSignal): Promise<void> {
    const { logind } = this.#parts;
    const wantedMs = periodRequestedMs(this.#ports.options.shutdown ?? []);
    if (wantedMs <= (await logind.inhibitDelayMs())) return;
    await logind.overrideInhibitDelay(wantedMs);
    for (let look = 0; look < OVERRIDE_LOOKS; look++) {
      if (wantedMs <= (await logind.inhibitDelayMs())) return;
      await this.#ports.clock.after(OVERRIDE_MS * 2 ** look, signal);
    }
    throw new Error(`a shutdown waits for ${(await logind.inhibitDelayMs()) / 1000} s at most, pods were promised ${wantedMs / 1000} s`);
  }

  /** The new lock first, so that there is always one. */
  async #stayUp(lost: (error: unknown) => void): Promise<void> {
    const { condition, log } = this.#ports;
    if (condition.shuttingDown) {
      log.info("the shutdown of this machine was called off", {});
      this.#event("Shutdown manager detected shutdown cancellation");
      delete condition.shuttingDown;
      this.#report();
    }
    const before = this.#lock;
    const lock = await this.#parts.logind.inhibitShutdown();
    this.#lock = lock;
    await before?.release();
    void lock.lost.then(() => {
      if (this.#lock === lock) lost(new Error("the lock that holds up a shutdown was lost"));
    });
  }

  async #shutDown(signal: AbortSignal): Promise<void> {
    const { condition, clock, log, options } = this.#ports;
    if (condition.shuttingDown) return;
    condition.shuttingDown = true;
    log.warn("this machine shuts down", {});
    this.#event("Shutdown manager detected shutdown event");
    this.#report();
    const startMs = clock.now();
    await this.#keep({ startMs });
    try {
      for (const group of groupByPriority(options.shutdown ?? [], await activePodsOf(this.#ports)))
        if (group.pods.length > 0 && this.#isShuttingDown && !signal.aborted) await this.#endGroup(group, signal);
    } finally {
      await this.#keep({ startMs, endMs: clock.now() });
      await this.#release();
    }
  }

  /** GS3. Source: nodeshutdown_manager.go killPods. */
  async #endGroup(group: ShutdownGroup, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const untilMs = clock.now() + group.seconds * 1_000;
    const named = { priority: group.priority, seconds: group.seconds, pods: group.pods.length };
    log.info("pods end for the shutdown", named);
    for (const pod of group.pods)
      await updateWorker(this.#ports, pod, "kill", "the machine shuts down", {
        graceOverrideSeconds: shutdownGraceSeconds(pod, group),
        abnormal: TERMINATED,
      });
    while (!(await this.#areGone(group.pods))) {
      if (clock.now() >= untilMs) return log.warn("pods have not ended in time for the shutdown", named);
      if (!this.#isShuttingDown || signal.aborted) return;
      await clock.after(LOOK_MS, signal).catch(() => undefined);
    }
  }

  /** Volumes too. */
  async #areGone(pods: readonly NodePod[]): Promise<boolean> {
    const records = await Promise.all(pods.map(({ metadata }) => this.#ports.store.read("workers", metadata.uid)));
    return records.every((record) => record === undefined || record.finished === true);
  }

  async #release(): Promise<void> {
    const lock = this.#lock;
    this.#lock = undefined;
    await lock?.release();
  }

  #event(message: string): void {
    this.#ports.record({ involved: nodeReference(this.#ports.options.nodeName), type: "Normal", reason: "NodeShutdown", message });
  }

  /** The pods do not wait for it. */
  #report(): void {
    this.#parts
      .reportStatus()
      .catch((error: unknown) => this.#ports.log.warn("the node's status was not sent", { error: messageOf(error) }));
  }

  async #showLast(): Promise<void> {
    try {
      const text = await this.#ports.files.readCheckpoint(SHUTDOWN_STATE_FILE);
      if (text !== undefined) this.#show(readShutdownState(text));
    } catch (error) {
      this.#ports.log.warn("when the last shutdown was cannot be read", { file: SHUTDOWN_STATE_FILE, error: messageOf(error) });
    }
  }

  async #keep(state: ShutdownState): Promise<void> {
    this.#show({ endMs: 0, ...state });
    await this.#ports.files
      .writeCheckpoint(SHUTDOWN_STATE_FILE, async () => writtenShutdownState(state))
      .catch((error: unknown) => this.#ports.log.warn("when the shutdown was is not kept", { error: messageOf(error) }));
  }

  #show({ startMs, endMs }: ShutdownState): void {
    const { metrics } = this.#ports;
    if (startMs !== undefined) metrics?.set("kubelet_graceful_shutdown_start_time_seconds", {}, Math.trunc(startMs / 1_000));
    if (endMs !== undefined) metrics?.set("kubelet_graceful_shutdown_end_time_seconds", {}, Math.trunc(endMs / 1_000));
  }
}
