/**
 * Steps that may last longer than a turn: an image pull, a hook, a container that gets time to end (node-agent §18.7).
 *
 * O1 of one pod, one operation of a name runs at a time; whoever asks for it again waits for the one that runs.
 * O2 a turn waits for at most its share of time, then ends; when the operation ends, its pod is woken, and the next turn that asks
 *    for it gets the outcome, once.
 * O3 `cancel` ends the waits of a pod's turn at once and aborts the operations that were started as abortable; others go on.
 * O4 they live and die with the host: after a crash the next turn looks at CRI and does what is left to do (§18.8).
 */
import type { Clock } from "../ports/clock.ts";

export type Outcome<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Not yet: the pod will be woken. */
  | { readonly kind: "running" };

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
  /** How long this turn waits for it. */
  readonly waitMs: number;
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

  async run<T>({ uid, name, act, waitMs, abortable = false }: OperationRequest<T>): Promise<Outcome<T>> {
    const operation = this.#running.get(uid)?.get(name) ?? this.#start(uid, name, act, abortable);
    operation.awaited = true;
    const over = new AbortController();
    const patience = this.#clock.after(waitMs, AbortSignal.any([this.#waitOf(uid).signal, over.signal])).catch(() => undefined);
    await Promise.race([operation.ended, patience]);
    over.abort();
    operation.awaited = false;
    if (operation.outcome === undefined) return { kind: "running" };
    this.#forget(uid, name);
    return operation.outcome as Outcome<T>; // of the operation of this name, which is always asked for with one type
  }

  /** Names of what goes on for a pod. */
  names(uid: string): readonly string[] {
    return [...(this.#running.get(uid) ?? [])].filter(([, { outcome }]) => outcome === undefined).map(([name]) => name);
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

  /** The pod is gone: outcomes that nobody fetched go with it. */
  forget(uid: string): void {
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
