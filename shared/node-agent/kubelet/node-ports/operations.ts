/**
 * Steps that may outlast a sync, such as image pulls and hooks (node-agent §18.7), and the errors that end a sync early.
 *
 * OP1 a pod has at most one running operation with a given name; later callers join it.
 * OP2 a sync waits a limited time, then pauses. When the operation ends, it enqueues the pod. The next caller gets the outcome, and only
 *     that caller.
 * OP3 `cancel` ends all waits of a pod's sync and aborts its abortable operations; the others continue. `forget` aborts all of them.
 * OP4 operations live as long as the host; after a crash the next sync continues from the runtime's state (§18.8).
 */
import type { Clock } from "@deltaloop/base";

/**
 * How long a sync waits for a step; then the sync ends and the step continues (node-agent §18.7). Short, because a waiting sync does not
 * react to changes of its pod.
 */
export const STEP_WAIT_MS = 2_000;

/** Ends the sync without a failure, while a step continues that will enqueue the pod when it ends. This is normal and needs no action. */
export class Pause extends Error {
  override readonly name = "Pause";
  /** Whether the pod is terminating, so that none of its other steps may continue. */
  readonly isTerminating: boolean;

  constructor(message: string, { isTerminating = false }: { readonly isTerminating?: boolean } = {}) {
    super(message);
    this.isTerminating = isTerminating;
  }
}

type Outcome<T> = { readonly kind: "done"; readonly value: T } | { readonly kind: "failed"; readonly error: unknown };

interface Operation {
  readonly ended: Promise<void>;
  readonly abort: AbortController;
  readonly abortable: boolean;
  outcome?: Outcome<unknown>;
  /** Whether a sync is waiting. If so, the end of the operation does not enqueue the pod. */
  awaited: boolean;
}

export interface OperationRequest<T> {
  readonly uid: string;
  readonly name: string;
  readonly act: (signal: AbortSignal) => Promise<T>;
  /** Description of the pending step, for logs. */
  readonly pause: string;
  /** Converts the failure, and always throws. Default: throws the failure itself. */
  readonly orElse?: (error: unknown) => Promise<never>;
  /** How long this sync waits. Default: 2 s. */
  readonly waitMs?: number;
  /**
   * Whether the termination of the pod aborts the operation: true for an image pull, for example, and false for a container stop.
   * Default: false.
   */
  readonly abortable?: boolean;
}

export class Operations {
  readonly #clock: Clock;
  readonly #enqueue: (uid: string) => void;
  readonly #running = new Map<string, Map<string, Operation>>();
  readonly #waits = new Map<string, AbortController>();

  constructor(clock: Clock, enqueue: (uid: string) => void) {
    this.#clock = clock;
    this.#enqueue = enqueue;
  }

  /** @throws {Pause} while the operation runs; afterwards its failure, or the error of `orElse` */
  async run<T>({ uid, name, act, pause, orElse, waitMs = STEP_WAIT_MS, abortable = false }: OperationRequest<T>): Promise<T> {
    const operation = this.#running.get(uid)?.get(name) ?? this.#start(uid, name, act, abortable);
    operation.awaited = true;
    const over = new AbortController();
    const deadline = this.#clock.after(waitMs, AbortSignal.any([this.#waitOf(uid).signal, over.signal])).catch(() => undefined);
    await Promise.race([operation.ended, deadline]);
    over.abort("over");
    operation.awaited = false;
    if (operation.outcome === undefined) throw new Pause(pause);
    this.#forget(uid, name);
    const outcome = operation.outcome as Outcome<T>; // an operation name is always used with one type
    if (outcome.kind === "done") return outcome.value;
    if (orElse !== undefined) await orElse(outcome.error);
    throw outcome.error;
  }

  /** Sleeps during a sync. @throws {Pause} if the sync is cancelled */
  async rest(uid: string, ms: number): Promise<void> {
    const { signal } = this.#waitOf(uid);
    await this.#clock.after(ms, signal).catch(() => undefined);
    if (signal.aborted) throw new Pause("the pod is terminating");
  }

  /** Names of the pod's running operations. */
  names(uid: string): readonly string[] {
    return [...(this.#running.get(uid) ?? [])].filter(([, { outcome }]) => outcome === undefined).map(([name]) => name);
  }

  /** Whether the operation is running, or has an outcome that no caller has received. */
  has(uid: string, name: string): boolean {
    return this.#running.get(uid)?.has(name) === true;
  }

  /** Number of pods with stored state. */
  get size(): number {
    return new Set([...this.#running.keys(), ...this.#waits.keys()]).size;
  }

  cancel(uid: string): void {
    this.#waits.get(uid)?.abort();
    this.#waits.delete(uid);
    for (const { abort, abortable } of this.#running.get(uid)?.values() ?? [])
      if (abortable) abort.abort(new Error("the pod is terminating"));
  }

  /** Drops outcomes that no caller has received, after a complete sync. Otherwise, a later request would receive them. */
  tidy(uid: string): void {
    for (const [name, { outcome }] of this.#running.get(uid) ?? []) if (outcome !== undefined) this.#forget(uid, name);
  }

  /** Aborts all operations of a deleted pod and drops their outcomes. */
  forget(uid: string): void {
    for (const { abort } of this.#running.get(uid)?.values() ?? []) abort.abort(new Error("the pod no longer exists"));
    this.#running.delete(uid);
    this.#waits.delete(uid);
  }

  #start<T>(uid: string, name: string, act: (signal: AbortSignal) => Promise<T>, abortable: boolean): Operation {
    const abort = new AbortController();
    const settle = (outcome: Outcome<T>): void => {
      operation.outcome = outcome;
      if (!operation.awaited) this.#enqueue(uid);
    };
    const ended = Promise.resolve()
      .then(() => act(abort.signal))
      .then(
        (value) => settle({ kind: "done", value }),
        (error: unknown) => settle({ kind: "failed", error }),
      );
    const operation: Operation = { ended, abort, abortable, awaited: true };
    const ofPod = this.#running.get(uid) ?? new Map<string, Operation>();
    this.#running.set(uid, ofPod.set(name, operation));
    return operation;
  }

  #waitOf(uid: string): AbortController {
    const known = this.#waits.get(uid);
    if (known !== undefined) return known;
    const fresh = new AbortController();
    this.#waits.set(uid, fresh);
    return fresh;
  }

  #forget(uid: string, name: string): void {
    const ofPod = this.#running.get(uid);
    ofPod?.delete(name);
    if (ofPod?.size === 0) this.#running.delete(uid);
  }
}

/** A step failed. The next sync retries it. */
export class StepError extends Error {
  override readonly name: string = "StepError";
  /** The earliest time at which a retry is useful. */
  readonly retryAtMs: number | undefined;

  constructor(message: string, options: { readonly retryAtMs?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.retryAtMs = options.retryAtMs;
  }
}

/** A container did not start. Its status shows the reason (`ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerError`, …). */
export class StartError extends StepError {
  override readonly name = "StartError";
  readonly reason: string;

  constructor(reason: string, message: string, options: { readonly retryAtMs?: number; readonly cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
  }
}

/** The earliest retry time of all failures. */
export function earliestRetryMs(failure: unknown): number | undefined {
  const errors: readonly unknown[] = failure instanceof AggregateError ? failure.errors : [failure];
  const retries = errors.flatMap((error) => (error instanceof StepError && error.retryAtMs !== undefined ? [error.retryAtMs] : []));
  return retries.length === 0 ? undefined : Math.min(...retries);
}
