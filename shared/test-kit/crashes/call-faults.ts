/**
 * Faults of single calls of a sync: its process dies before or after a call, or the response of a call is lost.
 *
 * A call is a request to the API server, a live read included, or a change of the Store: what is written through, the count of Events, and
 * the end of the run.
 * KF1 a run whose process died makes no further call, not even to renew its lease; nothing of it returns.
 * KF2 calls are counted in order over all runs, so the same seed has the same calls up to the first fault.
 */
import type { KeySync, WriteGateway } from "@deltaloop/controllers/kit";
import { UnansweredError } from "@deltaloop/kube/client";
import type { Store } from "@deltaloop/store/ports";

export type Fault =
  | { readonly kind: "dies"; readonly isDone: boolean }
  /** The call throws as if its connection broke. */
  | { readonly kind: "lost"; readonly isDone: boolean };

export interface Call {
  /** The number of the call over all runs, counted from 1. */
  readonly index: number;
  /** `<controller> <namespace>/<name>`. */
  readonly key: string;
  /** `create deployments`, `writeThrough`. */
  readonly name: string;
  /** The number of the call among those with this name and key, counted from 1. */
  readonly nth: number;
}

export interface CallFaults {
  /** The sync of a controller, whose calls are counted. */
  keySync(controller: string, keySync: KeySync): KeySync;
  /** The Store of the functions. */
  store(store: Store): Store;
  /** Calls so far, in order. */
  calls(): readonly Call[];
  /** How many faults have occurred. */
  occurred(): number;
  /** Ends the calls of dead runs. */
  stop(): void;
}

type OwnPorts = Parameters<KeySync["run"]>[0];
type RunGateway = ReturnType<WriteGateway["forRun"]>;
interface Running {
  readonly key: string;
  readonly token: string;
}

/** @param faultAt the fault of a call, if any */
export function createCallFaults(faultAt: (call: Call) => Fault | undefined): CallFaults {
  const calls: Call[] = [];
  const counts = new Map<string, number>();
  const runs = new Map<string, Running>();
  const dead = new Set<string>();
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => undefined);
  /** Nothing of a run that died returns. */
  const never = stopped.promise;
  let occurred = 0;

  async function call<T>({ key, token }: Running, name: string, act: () => Promise<T>): Promise<T> {
    if (dead.has(token)) return await never;
    const nth = (counts.get(`${key} ${name}`) ?? 0) + 1;
    counts.set(`${key} ${name}`, nth);
    const made: Call = { index: calls.length + 1, key, name, nth };
    calls.push(made);
    const fault = faultAt(made);
    if (fault === undefined) {
      const answer = await act();
      return dead.has(token) ? await never : answer;
    }
    occurred++;
    if (fault.kind === "dies" && !fault.isDone) dead.add(token);
    if (fault.isDone) await act().catch(() => undefined);
    if (fault.kind === "lost") throw new UnansweredError(`${name}: the connection broke`);
    dead.add(token);
    return await never;
  }

  const portsOf = (ports: OwnPorts, run: Running): OwnPorts => {
    const gateway = (of: RunGateway): RunGateway => ({
      create: (request) => call(run, `create ${request.resource}`, () => of.create(request)),
      patch: (request, row) =>
        call(run, `patch ${request.resource}${request.subresource === undefined ? "" : `/${request.subresource}`}`, () =>
          of.patch(request, row),
        ),
      delete: (request, row) => call(run, `delete ${request.resource}`, () => of.delete(request, row)),
    });
    return {
      ...ports,
      reader: {
        ...ports.reader,
        get: (resource, namespace, name, ...rest) =>
          call(run, `get ${resource}`, () => ports.reader.get(resource, namespace, name, ...rest)),
      },
      gateway: { ...ports.gateway, forRun: (owner) => gateway(ports.gateway.forRun(owner)) },
      store: {
        ...ports.store,
        writeThrough: (...args) => call(run, "writeThrough", () => ports.store.writeThrough(...args)),
        correlateEvents: (...args) => call(run, "correlateEvents", () => ports.store.correlateEvents(...args)),
      },
    };
  };

  return {
    keySync(controller, keySync) {
      const faulty: KeySync["run"] = (ports, run) => {
        const running = { key: `${controller} ${run.key}`, token: run.token };
        runs.set(run.token, running);
        return keySync.run(portsOf(ports, running), run);
      };
      return { ...keySync, run: faulty };
    },
    store: (store) => ({
      ...store,
      renew: (run) => (dead.has(run.token) ? never : store.renew(run)),
      done: (run, outcome) => {
        const running = runs.get(run.token);
        return running ? call(running, "done", () => store.done(run, outcome)) : store.done(run, outcome);
      },
    }),
    calls: () => calls,
    occurred: () => occurred,
    stop: () => stopped.reject(new Error("the test ends")),
  };
}
