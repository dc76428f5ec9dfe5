/**
 * Graceful node shutdown (node-agent §14.8): delays the machine's shutdown while pods terminate, low priority first.
 *
 * GS1 an inhibitor lock is held until a shutdown begins and its pods have ended.
 * GS2 during a shutdown the node is not Ready and admits no pod, until the shutdown is cancelled.
 * GS3 groups of pods are terminated one after another, each within its own period.
 *
 * Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go, nodeshutdown_manager.go. Differs from upstream: retries a failed watch,
 * and handles the current state when a new watch starts; a cancelled shutdown does not terminate the remaining groups.
 */
import { messageOf } from "@deltaloop/kube/objects";
import type { InhibitLock, Logind } from "../../ports/logind.ts";
import type { AbnormalTermination } from "../../ports/node-store.ts";
import { nodeReference } from "../events/event-recorder.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { groupByPriority, periodRequestedMs, shutdownGraceSeconds, type ShutdownGroup } from "./grace-periods.ts";
import { readShutdownState, SHUTDOWN_STATE_FILE, writtenShutdownState, type ShutdownState } from "./shutdown-state.ts";
import type { NodePod } from "../types/pod.ts";
import { activePodsOf } from "../allocation/admission-input.ts";
import { updateWorker, type EnqueuePorts } from "../pod-workers/update-worker.ts";

type NodeShutdownPorts = EnqueuePorts & Pick<NodePorts, "files" | "log" | "metrics" | "record" | "options">;

const TERMINATED: AbnormalTermination = {
  phase: "Failed",
  reason: "Terminated",
  message: "Pod was terminated in response to imminent node shutdown.",
  isDisruption: true,
  unlessSucceeded: true,
};
/** The initial retry delay, which grows on machines without logind. Source: nodeshutdown_manager_linux.go dbusReconnectPeriod. */
const RECONNECT_MS = 1_000;
const RECONNECT_MS_MAX = 60_000;
/** Initial delay between checks of whether the override has taken effect; doubled each time. Source: nodeshutdown_manager_linux.go start. */
const OVERRIDE_MS = 100;
const OVERRIDE_POLLS = 5;
/** Polling interval while pods terminate. */
const POLL_MS = 250;

export interface NodeShutdownDependencies {
  readonly logind: Logind;
  readonly reportStatus: () => Promise<void>;
}

export class NodeShutdown {
  readonly #ports: NodeShutdownPorts;
  readonly #dependencies: NodeShutdownDependencies;
  /** The latest signal from logind, which may not be handled yet. */
  #isShuttingDown = false;
  #handled: Promise<void> = Promise.resolve();
  #lock: InhibitLock | undefined;

  constructor(ports: NodeShutdownPorts, dependencies: NodeShutdownDependencies) {
    this.#ports = ports;
    this.#dependencies = dependencies;
  }

  /** Runs until `signal` aborts; returns immediately if no grace periods are configured. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, options } = this.#ports;
    if (options.shutdown === undefined || options.shutdown.length === 0) return;
    await this.#showLast();
    let [pauseMs, lastMessage] = [RECONNECT_MS, ""];
    while (!signal.aborted) {
      try {
        await this.#watch(signal, () => ([pauseMs, lastMessage] = [RECONNECT_MS, ""]));
      } catch (error) {
        const message = messageOf(error);
        if (message !== lastMessage) log.error("failed to watch for node shutdowns; will retry", { error: message });
        lastMessage = message;
      }
      await clock.after(pauseMs, signal).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, RECONNECT_MS_MAX);
    }
    await this.#handled;
    await this.#release();
  }

  /** @throws the reason why the watch failed or ended */
  async #watch(signal: AbortSignal, isWatching: () => void): Promise<void> {
    await this.#extendInhibitDelay(signal);
    const failure = new AbortController();
    const ends = AbortSignal.any([signal, failure.signal]);
    const fail = (error: unknown): void => failure.abort(error);
    const onChange = (isShuttingDown: boolean): void => {
      this.#isShuttingDown = isShuttingDown;
      const handle = async (): Promise<void> => {
        await (isShuttingDown ? this.#shutDown(signal) : this.#inhibit(fail));
        isWatching();
      };
      this.#handled = this.#handled.then(handle).catch(fail);
    };
    try {
      await this.#dependencies.logind.watchShutdown(onChange, ends);
      failure.signal.throwIfAborted();
    } finally {
      fail(undefined);
    }
  }

  async #extendInhibitDelay(signal: AbortSignal): Promise<void> {
    const { logind } = this.#dependencies;
    const wantedMs = periodRequestedMs(this.#ports.options.shutdown ?? []);
    if (wantedMs <= (await logind.inhibitDelayMs())) return;
    await logind.overrideInhibitDelay(wantedMs);
    for (let poll = 0; poll < OVERRIDE_POLLS; poll++) {
      if (wantedMs <= (await logind.inhibitDelayMs())) return;
      await this.#ports.clock.after(OVERRIDE_MS * 2 ** poll, signal);
    }
    throw new Error(
      `the shutdown delay is limited to ${(await logind.inhibitDelayMs()) / 1000} s, but the grace periods need ${wantedMs / 1000} s`,
    );
  }

  /** Takes a new lock before it releases the old one, so that a lock is always held. */
  async #inhibit(lost: (error: unknown) => void): Promise<void> {
    const { condition, log } = this.#ports;
    if (condition.shuttingDown) {
      log.info("node shutdown cancelled", {});
      this.#event("Shutdown manager detected shutdown cancellation");
      delete condition.shuttingDown;
      this.#report();
    }
    const before = this.#lock;
    const lock = await this.#dependencies.logind.inhibitShutdown();
    this.#lock = lock;
    await before?.release();
    void lock.lost.then(() => {
      if (this.#lock === lock) lost(new Error("the shutdown inhibitor lock was lost"));
    });
  }

  async #shutDown(signal: AbortSignal): Promise<void> {
    const { condition, clock, log, options } = this.#ports;
    if (condition.shuttingDown) return;
    condition.shuttingDown = true;
    log.warn("node shutdown detected", {});
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

  /** Terminates one group (GS3). Source: nodeshutdown_manager.go killPods. */
  async #endGroup(group: ShutdownGroup, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const untilMs = clock.now() + group.seconds * 1_000;
    const fields = { priority: group.priority, seconds: group.seconds, pods: group.pods.length };
    log.info("terminating pods for the node shutdown", fields);
    for (const pod of group.pods)
      await updateWorker(this.#ports, pod, "kill", "node shutdown", {
        graceOverrideSeconds: shutdownGraceSeconds(pod, group),
        abnormal: TERMINATED,
      });
    while (!(await this.#areGone(group.pods))) {
      if (clock.now() >= untilMs) return log.warn("pods did not terminate within their shutdown grace period", fields);
      if (!this.#isShuttingDown || signal.aborted) return;
      await clock.after(POLL_MS, signal).catch(() => undefined);
    }
  }

  /** Whether the pods are gone and their volumes are removed. */
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

  /** Reports the node status without delaying the termination of pods. */
  #report(): void {
    this.#dependencies
      .reportStatus()
      .catch((error: unknown) => this.#ports.log.warn("failed to report the node status", { error: messageOf(error) }));
  }

  async #showLast(): Promise<void> {
    try {
      const text = await this.#ports.files.readCheckpoint(SHUTDOWN_STATE_FILE);
      if (text !== undefined) this.#show(readShutdownState(text));
    } catch (error) {
      this.#ports.log.warn("failed to read the shutdown state", { file: SHUTDOWN_STATE_FILE, error: messageOf(error) });
    }
  }

  async #keep(state: ShutdownState): Promise<void> {
    this.#show({ endMs: 0, ...state });
    await this.#ports.files
      .writeCheckpoint(SHUTDOWN_STATE_FILE, async () => writtenShutdownState(state))
      .catch((error: unknown) => this.#ports.log.warn("failed to write the shutdown state", { error: messageOf(error) }));
  }

  #show({ startMs, endMs }: ShutdownState): void {
    const { metrics } = this.#ports;
    if (startMs !== undefined) metrics?.set("kubelet_graceful_shutdown_start_time_seconds", {}, Math.trunc(startMs / 1_000));
    if (endMs !== undefined) metrics?.set("kubelet_graceful_shutdown_end_time_seconds", {}, Math.trunc(endMs / 1_000));
  }
}
