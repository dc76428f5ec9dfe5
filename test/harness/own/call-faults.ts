/**
 * Faults of single calls of a sync: its process dies before or after a call, or the answer of a call is lost.
 *
 * A run whose process died makes no further call, not even to renew its lease; nothing of it returns.
 * A fault concerns one key. Calls are counted per key over all its runs: `create deployments 1`, `writeThrough 2`.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { OwnRun } from "../../../shared/controllers/kit/run.ts";
import { UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import type { Store } from "../../../shared/store/ports/store.ts";

export type Fault =
  | { readonly kind: "dies"; readonly isDone: boolean }
  /** The call throws as if its connection broke. */
  | { readonly kind: "lost"; readonly isDone: boolean };

/** `create deployments 1`: the nth call of this name. */
export type CallName = string;

export interface CallFaults {
  /** Attributes the calls of `act` to this run. */
  during<T>(controller: string, run: Pick<OwnRun, "key" | "token">, act: () => Promise<T>): Promise<T>;
  kube(kube: Kube): Kube;
  store(store: Store): Store;
  /** `key` is `<controller> <namespace>/<name>`. */
  plan(key: string, call: CallName, fault: Fault): void;
  /** The calls for a key so far, in order. */
  calls(key: string): readonly CallName[];
  /** How many planned faults have occurred. */
  occurred(): number;
  /** Ends the calls of dead runs. */
  stop(): void;
}

interface Running {
  readonly key: string;
  readonly token: string;
}

const KUBE_CALLS = ["get", "list", "create", "patch", "delete"] as const;

export function createCallFaults(): CallFaults {
  const running = new AsyncLocalStorage<Running>();
  const planned = new Map<string, Map<CallName, Fault>>();
  const calls = new Map<string, CallName[]>();
  const counts = new Map<string, number>();
  const dead = new Set<string>();
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => undefined);
  let occurred = 0;

  async function call<T>(of: Running | undefined, name: string, act: () => Promise<T>): Promise<T> {
    if (of === undefined) return await act();
    if (dead.has(of.token)) return await stopped.promise;
    const id = `${of.key} ${name}`;
    const nth = (counts.get(id) ?? 0) + 1;
    counts.set(id, nth);
    const full = `${name} ${nth}`;
    calls.set(of.key, [...(calls.get(of.key) ?? []), full]);
    const fault = planned.get(of.key)?.get(full);
    if (fault === undefined) {
      const answer = await act();
      return dead.has(of.token) ? await stopped.promise : answer;
    }
    occurred++;
    if (fault.kind === "dies" && !fault.isDone) dead.add(of.token);
    if (fault.isDone) await act().catch(() => undefined);
    if (fault.kind === "lost") throw new UnansweredError(`${name}: the connection broke`);
    dead.add(of.token);
    return await stopped.promise;
  }

  return {
    during: (controller, { key, token }, act) => running.run({ key: `${controller} ${key}`, token }, act),
    kube(kube) {
      const faulty = Object.fromEntries(
        KUBE_CALLS.map((verb) => [
          verb,
          (...args: [string | { readonly resource: string; readonly subresource?: string }, ...unknown[]]) => {
            const [to] = args;
            const resource =
              typeof to === "string" ? to : [to.resource, ...(to.subresource === undefined ? [] : [to.subresource])].join("/");
            return call(running.getStore(), `${verb} ${resource}`, () => (kube[verb] as (...all: unknown[]) => Promise<unknown>)(...args));
          },
        ]),
      );
      return { ...kube, ...faulty };
    },
    store: (store) =>
      new Proxy(store, {
        get(target, name, receiver) {
          const method: unknown = Reflect.get(target, name, receiver);
          if (typeof method !== "function" || typeof name !== "string") return method;
          return (...args: unknown[]) => {
            const act = () => (method as (...all: unknown[]) => Promise<unknown>).apply(target, args); // a port's method
            const token = tokenOf(args[0]);
            if (token !== undefined && dead.has(token)) return stopped.promise;
            return name === "writeThrough" || name === "correlateEvents" ? call(running.getStore(), name, act) : act();
          };
        },
      }),
    plan(key, name, fault) {
      planned.set(key, (planned.get(key) ?? new Map<CallName, Fault>()).set(name, fault));
    },
    calls: (key) => calls.get(key) ?? [],
    occurred: () => occurred,
    stop: () => stopped.reject(new Error("the test ends")),
  };
}

/** The token of the run that is the first argument of many Store calls. */
function tokenOf(argument: unknown): string | undefined {
  return typeof argument === "object" && argument !== null && "token" in argument ? String(argument.token) : undefined;
}
