/**
 * Steps that may last longer than a turn: an image pull, a hook, a container that gets time to end (node-agent §18.7). And how a
 * step of a turn ends that did not come to its end: with a Pause, or with a StartError.
 *
 * OP1 of one pod, one operation of a name runs at a time; whoever asks for it again waits for the one that runs.
 * OP2 a turn waits for at most its share of time, then pauses; when the operation ends, its pod is woken, and the next turn that asks
 *    for it gets the outcome, once.
 * OP3 `cancel` ends the waits of a pod's turn at once and aborts the operations that were started as abortable; others go on. `forget`
 *     aborts them all: of a pod that is gone nothing goes on.
 * OP4 they live and die with the host: after a crash the next turn looks at CRI and does what is left to do (§18.8).
 */
import type { Clock } from "@deltaloop/base";

/**
 * How long a turn waits for a step before it ends and leaves the step to run on (node-agent §18.7). Short, because a turn that waits
 * is deaf to what happens to its pod; the step's end brings the next one.
 */
export const STEP_WAIT_MS = 2_000;

/** All is well, and this turn goes no further: a step goes on, whose end wakes the pod. Normal; nobody has to act. */
export class Pause extends Error {
  override readonly name = "Pause";
  /** Not a step keeps it, but the pod is to end: nothing else of it may go on either. */
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
  /** A turn stands by; nobody needs to be woken. */
  awaited: boolean;
}

export interface OperationRequest<T> {
  readonly uid: string;
  readonly name: string;
  readonly act: (signal: AbortSignal) => Promise<T>;
  /** What goes on meanwhile, for people who read logs. */
  readonly pause: string;
  /** Says what a failure means; always throws. Default: the failure itself. */
  readonly orElse?: (error: unknown) => Promise<never>;
  /** How long this turn waits for it. Default 2 s. */
  readonly waitMs?: number;
  /** Ends when its pod is to end: an image pull is, a container's end is not. Default false. */
  readonly abortable?: boolean;
}

export class Operations {
  readonly #clock: Clock;
  readonly #wake: (uid: string) => void;
  readonly #running = new Map<string, Map<string, Operation>>();
  readonly #waits = new Map<string, AbortController>();

  constructor(clock: Clock, wake: (uid: string) => void) {
    this.#clock = clock;
    this.#wake = wake;
  }

  /** @throws {Pause} while it goes on; else what it failed with, or what `orElse` makes of that */
  async run<T>({ uid, name, act, pause, orElse, waitMs = STEP_WAIT_MS, abortable = false }: OperationRequest<T>): Promise<T> {
    const operation = this.#running.get(uid)?.get(name) ?? this.#start(uid, name, act, abortable);
    operation.awaited = true;
    const over = new AbortController();
    const patience = this.#clock.after(waitMs, AbortSignal.any([this.#waitOf(uid).signal, over.signal])).catch(() => undefined);
    await Promise.race([operation.ended, patience]);
    over.abort("over");
    operation.awaited = false;
    if (operation.outcome === undefined) throw new Pause(pause);
    this.#forget(uid, name);
    const outcome = operation.outcome as Outcome<T>; // of the operation of this name, which is always asked for with one type
    if (outcome.kind === "done") return outcome.value;
    if (orElse !== undefined) await orElse(outcome.error);
    throw outcome.error;
  }

  /** Within a turn: so long nothing is done. @throws {Pause} when it is cancelled meanwhile */
  async rest(uid: string, ms: number): Promise<void> {
    const { signal } = this.#waitOf(uid);
    await this.#clock.after(ms, signal).catch(() => undefined);
    if (signal.aborted) throw new Pause("the pod is to end");
  }

  /** Names of what goes on for a pod. */
  names(uid: string): readonly string[] {
    return [...(this.#running.get(uid) ?? [])].filter(([, { outcome }]) => outcome === undefined).map(([name]) => name);
  }

  /** It goes on, or its outcome waits to be fetched. */
  has(uid: string, name: string): boolean {
    return this.#running.get(uid)?.has(name) === true;
  }

  /** Pods of which anything is kept. */
  get size(): number {
    return new Set([...this.#running.keys(), ...this.#waits.keys()]).size;
  }

  cancel(uid: string): void {
    this.#waits.get(uid)?.abort();
    this.#waits.delete(uid);
    for (const { abort, abortable } of this.#running.get(uid)?.values() ?? []) if (abortable) abort.abort(new Error("the pod is to end"));
  }

  /** A turn has come to its end without asking for them: outcomes that would otherwise answer a later, other question. */
  tidy(uid: string): void {
    for (const [name, { outcome }] of this.#running.get(uid) ?? []) if (outcome !== undefined) this.#forget(uid, name);
  }

  /** The pod is gone: outcomes that nobody fetched go with it, and what still goes on for it. */
  forget(uid: string): void {
    for (const { abort } of this.#running.get(uid)?.values() ?? []) abort.abort(new Error("the pod is gone"));
    this.#running.delete(uid);
    this.#waits.delete(uid);
  }

  #start<T>(uid: string, name: string, act: (signal: AbortSignal) => Promise<T>, abortable: boolean): Operation {
    const abort = new AbortController();
    const settle = (outcome: Outcome<T>): void => {
      operation.outcome = outcome;
      if (!operation.awaited) this.#wake(uid);
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

/** A step failed. Normal; the next turn tries again. */
export class StepError extends Error {
  override readonly name: string = "StepError";
  /** Not before this is another try worth while. */
  readonly retryAtMs: number | undefined;

  constructor(message: string, options: { readonly retryAtMs?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.retryAtMs = options.retryAtMs;
  }
}

/** A container did not start, for a reason that its status shows (`ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerError`, …). */
export class StartError extends StepError {
  override readonly name = "StartError";
  readonly reason: string;

  constructor(reason: string, message: string, options: { readonly retryAtMs?: number; readonly cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
  }
}

/** Of all that failed, when the first is worth another try. */
export function earliestRetryMs(failure: unknown): number | undefined {
  const errors: readonly unknown[] = failure instanceof AggregateError ? failure.errors : [failure];
  const retries = errors.flatMap((error) => (error instanceof StepError && error.retryAtMs !== undefined ? [error.retryAtMs] : []));
  return retries.length === 0 ? undefined : Math.min(...retries);
}
