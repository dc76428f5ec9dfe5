/** Names of all keys of this adapter in Redis (informer §11.1), and the KEYS of one call. */
import type { OwnerId, View, ControllerName } from "@deltaloop/kube/objects";
import { BLOCKS } from "./scripts/layout-table.ts";
import { argList, keyList } from "./scripts/layouts.ts";
import type { ArgsOf, KeysOf, ScriptName } from "./scripts/layouts.ts";

/** Names of keys that belong to no epoch. The cluster id is the hash tag: all keys of one cluster are in one slot. */
export interface DeploymentKeys {
  /** Common prefix of these names. */
  readonly prefix: string;
  /** The epoch of the key; undefined for keys that belong to no epoch or to another deployment or cluster. */
  epochOf(key: string): string | undefined;
  /** Key `ep`: the current epoch. */
  readonly epoch: string;
  /** The last forgeries. */
  readonly forgeries: string;
  /** Whether the guard has stopped keys. */
  readonly stop: string;
  /** Times of the last opened epochs (LN5). */
  readonly opened: string;
  /** Counts of received items by fate. */
  readonly tally: string;
  /** The rate limiter of a controller's retries. */
  limiter(controller: ControllerName): string;
  /** A controller's recent Events: for groups, Events and budgets one hash each, with its fields ordered by last use. */
  events(controller: ControllerName): KeysOf<"correlateEvents">;
  /** Names inside one epoch. */
  of(epoch: string): EpochKeys;
}

export interface EpochKeys {
  readonly epoch: string;
  meta(resource: View): string;
  /** The state of a lane (`l`). */
  laneState(resource: View, lane: number): string;
  /**
   * Keys of a lane, in the order of the scripts' block: state (`l`), version rows (`v`), tombstones (`t`), sequences applied out of order
   * (`h`), and parts of manifests (`mp`).
   */
  lane(resource: View, lane: number): readonly [l: string, v: string, t: string, h: string, mp: string];
  /** The slice of an owner, or of a namespace's orphans (`-<namespace>`). */
  slice(resource: View, owner: string): string;
  /** Keys of a namespace's primaries. */
  primaries(resource: View, namespace: string): string;
  counts(resource: View): string;
  needed(resource: View): string;
  /**
   * Keys of a work queue, in the order of the scripts' block: due keys (`q`), runs in progress (`p`), failures (`f`), primaries (`u`),
   * doorbells (`b`), and last runs (`z`).
   */
  queue(controller: ControllerName): readonly [q: string, p: string, f: string, u: string, b: string, z: string];
  intents(owner: OwnerId): string;
  readonly quarantine: string;
  /** When periodic jobs run next. */
  readonly jobs: string;
}

const LIMITER = "rl:";
const EVENTS = "ev:";

export function deploymentKeys(deployment: string, cluster: string): DeploymentKeys {
  const prefix = `dl:${deployment}:{${cluster}}:`;
  let last: EpochKeys | undefined;
  return {
    prefix,
    epochOf(key) {
      const end = key.indexOf(":", prefix.length);
      if (!key.startsWith(prefix) || end === -1) return undefined;
      if ([LIMITER, EVENTS].some((name) => key.startsWith(name, prefix.length))) return undefined;
      return key.slice(prefix.length, end);
    },
    epoch: `${prefix}ep`,
    forgeries: `${prefix}forged`,
    stop: `${prefix}guard`,
    opened: `${prefix}opened`,
    tally: `${prefix}tally`,
    limiter: (controller) => `${prefix}${LIMITER}${controller}`,
    events(controller) {
      const part = (name: string): string => `${prefix}${EVENTS}${controller}:${name}`;
      return {
        groups: part("g"),
        groupsOrder: part("gz"),
        events: part("e"),
        eventsOrder: part("ez"),
        budgets: part("b"),
        budgetsOrder: part("bz"),
      };
    },
    of(epoch) {
      if (last?.epoch !== epoch) last = epochKeys(prefix, epoch);
      return last;
    },
  };
}

/** The hash of a deployment's watchers. It belongs to no cluster; no function's user may access it. */
export function membersKey(deployment: string): string {
  return `dl:${deployment}:watchers`;
}

function epochKeys(prefix: string, epoch: string): EpochKeys {
  const p = `${prefix}${epoch}:`;
  const states = new Map<View, string[]>();
  const lanes = new Map<View, ReturnType<EpochKeys["lane"]>[]>();
  const queues = new Map<ControllerName, ReturnType<EpochKeys["queue"]>>();
  const laneState = (resource: View, lane: number): string => {
    let ofView = states.get(resource);
    if (!ofView) states.set(resource, (ofView = []));
    return (ofView[lane] ??= `${p}l:${resource}:${lane}`);
  };
  return {
    epoch,
    meta: (resource) => `${p}m:${resource}`,
    laneState,
    lane(resource, lane) {
      const part = (name: string): string => `${p}${name}:${resource}:${lane}`;
      let ofView = lanes.get(resource);
      if (!ofView) lanes.set(resource, (ofView = []));
      return (ofView[lane] ??= [laneState(resource, lane), part("v"), part("t"), part("h"), part("mp")]);
    },
    slice: (resource, owner) => `${p}s:${resource}:${owner}`,
    primaries: (resource, namespace) => `${p}k:${resource}:${namespace}`,
    counts: (resource) => `${p}n:${resource}`,
    needed: (resource) => `${p}need:${resource}`,
    queue(controller) {
      let queue = queues.get(controller);
      if (!queue) {
        queue = BLOCKS.queue.map((part) => `${p}${part}:${controller}`) as unknown as ReturnType<EpochKeys["queue"]>; // six parts
        queues.set(controller, queue);
      }
      return queue;
    },
    intents: (owner) => `${p}i:${owner}`,
    quarantine: `${p}quar`,
    jobs: `${p}turn`,
  };
}

/** The slice of an owner, or of the orphans of a namespace. An OwnerId never starts with a dash. */
export function sliceName(owner: OwnerId | undefined, namespace: string): string {
  return owner ?? `-${namespace}`;
}

/** A slice that is always empty, for a controller without dependents. `-` is the slice of orphans of the cluster scope. */
export const NO_SLICE = "";

/** A script with its KEYS, and its ARGV after the clock. */
export interface Call {
  readonly script: ScriptName;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** KEYS of one call. Scripts get slots (from 1), so that they derive no key from data, which Redis Cluster forbids. */
export class KeyTable<S extends ScriptName = ScriptName> {
  readonly keys: string[] = [];
  readonly #script: S;
  readonly #slots = new Map<string, number>();
  readonly #blocks = new Map<string, number>();

  constructor(script: S, epochKey: string, keys: KeysOf<S>) {
    this.#script = script;
    this.keys.push(epochKey);
    for (const each of keyList(script, keys)) {
      if (typeof each === "string") this.#slots.set(each, this.keys.push(each)); // a repeated key gets its last slot
      else this.block(each);
    }
  }

  /** The call; `args` may use slots from this table. */
  call(epoch: string, args: ArgsOf<S>): Call {
    return { script: this.#script, keys: this.keys, args: argList(this.#script, epoch, args) };
  }

  slot(key: string): number {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = this.keys.push(key);
      this.#slots.set(key, slot);
    }
    return slot;
  }

  /** Puts keys into consecutive slots; returns the first slot. */
  block(keys: readonly string[]): number {
    const id = blockId(keys);
    let first = this.#blocks.get(id);
    if (first === undefined) {
      first = this.keys.length + 1;
      this.keys.push(...keys);
      this.#blocks.set(id, first);
    }
    return first;
  }
}

/** Different blocks may begin with the same key: `l` of one lane, and `l` of all lanes. */
function blockId(keys: readonly string[]): string {
  return `${keys[0]} ${keys.at(-1)}`;
}
