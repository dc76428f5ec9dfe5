/** Plays a recorded scenario (test/captures) in a closed-loop replay, without a fault or with that of a plan. */
import { join } from "node:path";

import { functionHandlers } from "../../../cli/functions/functions.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { syncFunction } from "../../../shared/controllers/registry/names.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import type { KubeReader, KubeWatch, KubeWriter, WatchFrame, WatchQuery } from "../../../shared/kube/client/kube.ts";
import type { SqsHandler } from "../../../shared/controllers/lambda/sqs-handler.ts";
import type { FunctionWiring } from "../../../shared/controllers/lambda/wiring.ts";
import type { MakeHandlers } from "../../../shared/local/assemble-system.ts";
import { closedReplay } from "../../../shared/replay/closed/closed.ts";
import type { Life } from "../../../shared/replay/closed/life.ts";
import { releaseOfCapture } from "../../captures/releases.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import { silentLog } from "../../support/silent-log.ts";
import { Fate } from "../fates.ts";
import { undesired } from "./desired.ts";
import { withoutRules } from "../rules.ts";
import type { Rule } from "../rules.ts";
import { holdBack } from "./hold-back.ts";
import { changeOf } from "./plans.ts";
import type { Plan, Recorded, RecordedEvent } from "./plans.ts";
import { changesOf, lifeOf, readCapture } from "../../support/held-capture.ts";

const CAPTURES = join(import.meta.dirname, "../../captures");
const SEED = 1;
/** A killed function's message is delivered again after the queue's visibility timeout. */
const TAIL_MS = 120_000;
const digester = createDigester("directed plans");

export interface Played extends Recorded {
  /** Differences from the recorded end. */
  readonly disagreements: readonly string[];
  /** Differences from the desired state. */
  readonly undesired: readonly string[];
  readonly created: ReadonlyMap<string, number>;
  /** Whether the plan's fault occurred. */
  readonly isHit: boolean;
}

export function lifeOfScenario(name: string): Life {
  return lifeOf(changesOf(readCapture(join(CAPTURES, `${name}.watch.jsonl.gz`)), { name, digester, malformed: () => undefined }));
}

type Kube = KubeReader & KubeWriter & KubeWatch;

/** @param off rules of the Store that are switched off for the functions */
export async function play(name: string, life: Life, plan?: Plan, off: ReadonlySet<Rule> = new Set()): Promise<Played> {
  const release = releaseOfCapture(name);
  const data = createMemoryData();
  const run = new Run(plan, (store) => withoutRules(store, data, off));
  const { disagreements, objects } = await closedReplay(life, {
    ...{ digester, seed: SEED, release: () => release, log: silentLog, onPerson: () => undefined, onSync: () => undefined },
    data,
    tailMs: TAIL_MS,
    functions: run.functions,
    intercept: (component, kube, clock) => (component === "watcher" ? run.watcher(kube, clock) : kube),
  });
  return { disagreements, undesired: undesired(objects), created: run.created, writes: run.writes, events: run.events, isHit: run.isHit };
}

class Run {
  readonly writes: string[] = [];
  readonly events = new Map<CachedResource, RecordedEvent[]>();
  readonly created = new Map<string, number>();
  isHit = false;
  readonly #plan: Plan | undefined;
  readonly #store: (store: Store) => Store;
  readonly #last = new Map<string, LiveObject>();

  constructor(plan: Plan | undefined, store: (store: Store) => Store) {
    this.#plan = plan;
    this.#store = store;
  }

  /** Each invocation is a process of its own. */
  readonly functions: MakeHandlers = (wiring, onChanges) => {
    const living = (name: string): Fate => new Fate({ clock: wiring(name).clock, draw: () => "live" });
    const handlers = functionHandlers((name) => this.#mortal(wiring(name), living(name)), onChanges);
    const sync = tableOf(CONTROLLERS, (controller): SqsHandler => async (event, context) => {
      const fate = living(syncFunction(controller));
      const died = new Promise<never>((_, reject) =>
        fate.died.addEventListener("abort", () => reject(new Error("the process was killed")), { once: true }),
      );
      const own = functionHandlers((each) => this.#mortal(wiring(each), fate)).sync[controller];
      return await Promise.race([own(event, context), died]);
    });
    return { ...handlers, sync };
  };

  #mortal(wiring: FunctionWiring, fate: Fate): FunctionWiring {
    return {
      ...wiring,
      clock: fate.clock(),
      cluster: (cid) => {
        const cluster = wiring.cluster(cid);
        return (
          cluster && {
            ...cluster,
            store: fate.over(this.#store(cluster.store)),
            doorbells: fate.over(cluster.doorbells),
            reader: fate.over(cluster.reader),
            gateway: (controller, contract) => {
              const gateway = cluster.gateway(controller, contract);
              return { mode: gateway.mode, forRun: (owner) => fate.over(this.#counted(gateway.forRun(owner), fate)) };
            },
          }
        );
      },
    };
  }

  #counted<T extends object>(gateway: T, fate: Fate): T {
    return new Proxy(gateway, {
      get: (target, verb: string) => {
        const value: unknown = Reflect.get(target, verb);
        if (typeof value !== "function") return value;
        return async (request: { readonly resource: string; readonly subresource?: string }, ...rest: readonly unknown[]) => {
          const answer: unknown = await Reflect.apply(value, target, [request, ...rest]);
          if (request.resource !== "events")
            this.#wrote(`${verb} ${[request.resource, request.subresource].filter(Boolean).join("/")}`, fate);
          return answer;
        };
      },
    });
  }

  #wrote(write: string, fate: Fate): void {
    if (this.#plan?.pattern === "crash" && this.#plan.write === this.writes.length) {
      this.isHit = true;
      fate.die();
    }
    this.writes.push(write);
    if (write.startsWith("create ")) this.created.set(write, (this.created.get(write) ?? 0) + 1);
  }

  watcher(kube: Kube, clock: Clock): Kube {
    const watch = (resource: CachedResource, query: WatchQuery, signal: AbortSignal): AsyncIterable<readonly WatchFrame[]> => {
      const plan = this.#plan?.pattern !== "crash" && this.#plan?.resource === resource ? this.#plan : undefined;
      return holdBack(kube.watch(resource, query, signal), {
        ...{ clock, plan, isListing: query.sendInitialEvents === true },
        number: () => this.#eventsOf(resource).length,
        onEvent: (type, object) => this.#happened(resource, type, object),
        onHold: () => (this.isHit = true),
      });
    };
    return { ...kube, watch };
  }

  #eventsOf(resource: CachedResource): RecordedEvent[] {
    const events = this.events.get(resource) ?? [];
    this.events.set(resource, events);
    return events;
  }

  #happened(resource: CachedResource, type: string, object: LiveObject): void {
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    const place = `${resource} ${key}`;
    this.#eventsOf(resource).push({ key, change: changeOf(type, this.#last.get(place), object) });
    this.#last.set(place, object);
  }
}
