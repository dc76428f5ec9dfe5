/**
 * Faults beside those of faults.ts and losses.ts. Each is drawn from its own seed, so that a run without it is unchanged.
 *
 * upkeep   resyncs and audits run all the time
 * stops    a namespace, or everything, is stopped by the guard, and resumed
 * skew     each watcher's clock is up to five minutes wrong
 * hostile  a sender without the MAC key repeats, changes, cuts, forges and invents messages
 * keys     the MAC key is rotated; processes read each step at different times, also in the wrong order
 * full     the Store repeatedly reaches its memory limit (full-store.ts)
 * builds   a build that caches other data replaces another, process by process
 * big      users' objects grow to a MiB
 * stale    lists are answered by a server that lags behind etcd as far as the request allows
 */
import { CORE_CACHE } from "../../shared/controllers/registry/registry.ts";
import { encodePackText, packText } from "../../shared/controllers/cache/messages/pack-codec.ts";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";
import type { WatcherOptions } from "../../shared/controllers/cache/watcher/watcher.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import type { Random } from "../../shared/base/random.ts";
import { objectKey } from "../../shared/kube/objects/resources.ts";
import type { KubeReader } from "../../shared/kube/client/kube.ts";
import type { MemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import type { GuardStore } from "../../shared/store/ports/guard-store.ts";
import { createSigner } from "../../shared/store/signer.ts";
import type { Signer } from "../../shared/store/signer.ts";
import type { StoreIdentity } from "../../shared/store/store-options.ts";
import { SHOP } from "./users.ts";

const FIRST = ["upkeep", "stops", "skew", "hostile", "keys"] as const;
const LATER = ["full", "builds", "big", "stale"] as const;
export const DISTURBANCES = [...FIRST, ...LATER] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

/** Share of runs with each of them; big objects take three times as long. */
const [SHARE, SHARE_OF_BIG] = [1 / 8, 1 / 32];
const SKEW_MS_MAX = 300_000;
/** Number of genuine messages from which a hostile sender chooses. */
const KEPT_MAX = 100;

/** The seeds of FAILED_ONCE have none. */
export function drawDisturbances(seed: number): ReadonlySet<Disturbance> {
  const random = createSeededRandom(seed * 86_028_121 + 18);
  const later = createSeededRandom(seed * 24_000_147 + 16);
  const first = FIRST.filter(() => random.next() < SHARE);
  return new Set([...first, ...LATER.filter((each) => later.next() < (each === "big" ? SHARE_OF_BIG : SHARE))]);
}

/** Resync and audit, some hundred times as often as in production. */
export function frequentUpkeep(reader: KubeReader): NonNullable<WatcherOptions["upkeep"]> {
  const times = { resyncMs: 30_000, resyncSpreadMs: 5_000, auditMs: 20_000, auditSettleMs: 20_000, tickMs: 2_000 };
  return { ...times, reader, registry: CORE_CACHE };
}

/** A clock that is ahead or behind by a constant time. */
export function skewed(clock: Clock, random: Random): Clock {
  const aheadMs = Math.round((random.next() * 2 - 1) * SKEW_MS_MAX);
  return { ...clock, now: () => clock.now() + aheadMs };
}

interface StopPorts {
  readonly store: GuardStore;
  readonly clock: Clock;
  readonly random: Random;
  /** Called with the time of a stop, and with undefined when it has ended. */
  readonly onStop: (sinceMs: number | undefined) => void;
}

/** Stops the users' namespace, or everything, and resumes it after up to a minute. */
export async function stopAndResume({ store, clock, random, onStop }: StopPorts): Promise<void> {
  const write = { resource: "replicasets", key: objectKey(SHOP, "a"), manager: "another-controller", atMs: clock.now() } as const;
  const isTotal = random.next() < 0.3;
  await store.reportForeignWrites(isTotal ? { everything: write, namespaces: [] } : { namespaces: [write] }, clock.now());
  onStop(clock.now());
  await clock.after(1_000 + random.next() * 59_000);
  const request = { ...(isTotal ? {} : { namespace: SHOP }), seen: await store.guard(), acceptedMs: clock.now() };
  if ((await store.resume(request)) === "changed") throw new Error("the guard's state changed, although nothing else reports writes");
  onStop(undefined);
}

/** Reads the delta queue and sends to it, without the MAC key. */
export class HostileSender {
  readonly #queue: MemoryDeltaQueue;
  readonly #cluster: string;
  readonly #random: Random;
  readonly #signer: Signer;
  readonly #seen: { readonly group: string; readonly body: string }[] = [];
  #sent = 0;

  constructor(queue: MemoryDeltaQueue, cluster: string, random: Random) {
    [this.#queue, this.#cluster, this.#random] = [queue, cluster, random];
    this.#signer = createSigner(["the MAC key of another deployment"], cluster);
  }

  /** The queue as the watchers use it. */
  get watched(): Pick<MemoryDeltaQueue, "send"> {
    return {
      send: (entries) => {
        this.#seen.push(...entries);
        this.#seen.splice(0, this.#seen.length - KEPT_MAX);
        return this.#queue.send(entries);
      },
    };
  }

  /** Sends one message. @returns what it is; undefined if there was none to start from */
  async act(): Promise<string | undefined> {
    const entry = this.#pick(this.#seen);
    const group = this.#pick(this.#seen)?.group;
    if (!entry || group === undefined) return undefined;
    const { what, body } = this.#message(entry.body);
    const entries = [{ id: `hostile-${++this.#sent}`, group: this.#random.next() < 0.5 ? group : entry.group, body }];
    await this.#queue.send(entries).catch(() => undefined); // no answer
    return what;
  }

  #message(body: string): { readonly what: string; readonly body: string } {
    const at = Math.floor(this.#random.next() * body.length);
    const payload = body.split(".").slice(2).join(".");
    const kinds = [
      { what: "forged", body: signBody(this.#signer, this.#cluster, encodePackText(asNext(packText(payload)))) },
      { what: "repeated", body },
      { what: "repeated", body },
      { what: "changed", body: `${body.slice(0, at)}${body[at] === "A" ? "B" : "A"}${body.slice(at + 1)}` },
      { what: "cut", body: body.slice(0, at) },
      { what: "signed with another key", body: signBody(this.#signer, this.#cluster, payload) },
      { what: "invented", body: ["", "{}", "[".repeat(50_000), `${this.#cluster}..`, "\u0000"][Math.floor(this.#random.next() * 5)] ?? "" },
    ];
    return this.#pick(kinds) ?? { what: "repeated", body };
  }

  #pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random.next() * all.length)];
  }
}

/** The message as the lane's next one, with versions that the API server has not reached. */
function asNext(text: string): string {
  return text
    .replace(/"sq":(\d+)/, (_, sequence) => `"sq":${Number(sequence) + 1}`)
    .replaceAll(/"(rv|resourceVersion)":"(\d+)"/g, (_, name, version) => `"${name}":"${BigInt(version) + 1_000n}"`);
}

/** Maximum time between the replacements of the first and the last process. */
const UPGRADE_MS = 30_000;

/** The formats of each process's build while a build with another projection replaces it, process by process, from `startMs` on. */
export class Upgrade {
  readonly #options: UpgradeOptions;
  readonly #replacedMs = new Map<string, number>();

  constructor(options: UpgradeOptions) {
    this.#options = options;
  }

  replacedMs(process: string): number {
    const { random, startMs } = this.#options;
    const atMs = this.#replacedMs.get(process) ?? startMs + random.next() * UPGRADE_MS;
    this.#replacedMs.set(process, atMs);
    return atMs;
  }

  /** The formats at the time of reading. */
  identity(process: string): StoreIdentity {
    const { clock, identity } = this.#options;
    const replacedMs = this.replacedMs(process);
    return {
      ...identity,
      get projection() {
        return identity.projection + (clock.now() >= replacedMs ? 1 : 0);
      },
    };
  }
}

interface UpgradeOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly startMs: number;
  /** The formats before it. */
  readonly identity: StoreIdentity;
}

/** The keys before a rotation, and at each step of it: the first one signs, all are accepted (docs/guides/rotate-keys.md). */
const BEFORE = ["old"] as const;
const STEPS = [["old", "new"], ["new", "old"], ["new"]] as const;
/** Time between two steps, and until the last process has read one. */
const [STEP_MS, READ_MS] = [20_000, 30_000];

interface RotationOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Time of the first step. */
  readonly startMs: number;
  /** Called when a process reads a text that is signed with a key that it does not have. */
  readonly onUnknown: () => void;
}

/** Signers of a deployment whose MAC key is rotated from `startMs` on. */
export class Rotation {
  readonly #before: Signer;
  readonly #signers: readonly Signer[];
  readonly #options: RotationOptions;

  constructor(cluster: string, options: RotationOptions) {
    this.#before = createSigner(BEFORE, cluster);
    this.#signers = STEPS.map((keys) => createSigner(keys, cluster));
    this.#options = options;
  }

  /** The signer of one process. */
  signer(): Signer {
    const { clock, random, startMs, onUnknown } = this.#options;
    const readMs = STEPS.map((_, step) => startMs + step * STEP_MS + random.next() * READ_MS);
    const current = (): Signer => this.#signers[readMs.findLastIndex((ms) => clock.now() >= ms)] ?? this.#before;
    return {
      get keyId() {
        return current().keyId;
      },
      sign: (domain, parts) => current().sign(domain, parts),
      verify: (domain, parts, signature) => {
        const verdict = current().verify(domain, parts, signature);
        if (verdict === "unknown") onUnknown();
        return verdict;
      },
    };
  }
}
