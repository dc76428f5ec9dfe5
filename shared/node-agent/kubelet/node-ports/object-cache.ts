/**
 * Secrets, ConfigMaps, RuntimeClasses and Services that this node's pods name, and the tokens made for them (node-agent §10, Refresh): in memory only.
 *
 * OC1 a read is at most `FRESH_MS` old, or was asked for just now; an `immutable` object is read once; that there is none is believed
 *    for `ABSENT_FRESH_MS`.
 * OC2 while the API server does not answer, the last state read stands in; what was never read is an error.
 * OC3 one read of one object at a time, however many pods name it.
 * OC4 what nobody asked for in `UNUSED_MS` is dropped: a pod asks for all that it names each time it is looked at.
 * OC5 a pod may name tens of thousands: where there is no room it is the namespace with the most entries that loses some, and of one
 *    namespace `READS_AT_ONCE_MAX` are on their way at once, so that calls of others find a place, the node's heartbeats among them.
 */
import type { KubeObject } from "@deltaloop/kube/objects";
import { parseTime } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import { isTooManyRequests, isUnanswered, NotSentError, CALLS_AT_ONCE_MAX } from "@deltaloop/kube/client";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import { NODE_CALL_WAIT_MS_MAX } from "@deltaloop/base";

const FRESH_MS = 5_000;
/** Whoever needs it asks again soon, and not everybody who does should be a read. */
const ABSENT_FRESH_MS = 500;
const SERVICES_FRESH_MS = 15_000;
const ENTRIES_MAX = 2_000;
const READS_AT_ONCE_MAX = CALLS_AT_ONCE_MAX / 2;
/** Many times the longest that a pod is not looked at. */
const UNUSED_MS = 600_000;

export interface ServiceAccountToken {
  readonly token: string;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
}

export interface TokenRequest {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly audience: string;
  readonly expirationSeconds: number;
  readonly pod: { readonly name: string; readonly uid: string };
}

interface Entry<T> {
  readonly value: T;
  readonly readAtMs: number;
  readonly usedAtMs: number;
}

/** Of one namespace; of what is in none, of `""`. */
interface Shelf {
  /** Those first that nobody asked for for longest. */
  readonly entries: Map<string, Entry<unknown>>;
  reads: number;
  /** Who waits for a place to read in, and takes it over. */
  readonly waiting: Set<() => void>;
}

/** What is read, and for whom. */
interface Wanted<T> {
  readonly namespace: string;
  readonly key: string;
  readonly isFresh: (entry: Entry<T>) => boolean;
  readonly read: () => Promise<T>;
}

export class ObjectCache {
  readonly #kube: KubeReader & KubeWriter;
  readonly #clock: Clock;
  readonly #shelves = new Map<string, Shelf>();
  readonly #reading = new Map<string, Promise<unknown>>();

  constructor(kube: KubeReader & KubeWriter, clock: Clock) {
    this.#kube = kube;
    this.#clock = clock;
  }

  /** undefined = the API server says that there is none. RuntimeClasses are in no namespace, `""`. */
  async get(resource: "configmaps" | "secrets" | "runtimeclasses", namespace: string, name: string): Promise<KubeObject | undefined> {
    const isFresh = ({ value, readAtMs }: Entry<KubeObject | undefined>): boolean =>
      isImmutable(value) || this.#clock.now() - readAtMs < (value === undefined ? ABSENT_FRESH_MS : FRESH_MS);
    const read = (): Promise<KubeObject | undefined> => this.#kube.get(resource, namespace, name);
    return await this.#read({ namespace, key: `${resource}/${namespace}/${name}`, isFresh, read });
  }

  /** All namespaces; at least all that were there at `sinceMs`. */
  async services(sinceMs: number): Promise<readonly KubeObject[]> {
    const isFresh = ({ readAtMs }: Entry<unknown>): boolean => readAtMs >= sinceMs && this.#clock.now() - readAtMs < SERVICES_FRESH_MS;
    return await this.#read({ namespace: "", key: "services", isFresh, read: async () => (await this.#kube.list("services", "")).items });
  }

  /** `renewAtMs` says when a token that is held is too old. @throws what the API server answers to the TokenRequest */
  async token(request: TokenRequest, renewAtMs: (held: ServiceAccountToken) => number): Promise<ServiceAccountToken> {
    const { namespace, serviceAccount, audience, expirationSeconds, pod } = request;
    const key = `token/${pod.uid}/${serviceAccount}/${audience}/${expirationSeconds}`;
    const isFresh = ({ value }: Entry<ServiceAccountToken>): boolean => this.#clock.now() < renewAtMs(value);
    const read = async (): Promise<ServiceAccountToken> => {
      const issuedAtMs = this.#clock.now();
      const answer = await this.#kube.create({
        resource: "serviceaccounts",
        namespace,
        of: { name: serviceAccount, subresource: "token" },
        body: {
          apiVersion: "authentication.k8s.io/v1",
          kind: "TokenRequest",
          spec: {
            ...(audience !== "" && { audiences: [audience] }),
            expirationSeconds,
            boundObjectRef: { apiVersion: "v1", kind: "Pod", name: pod.name, uid: pod.uid },
          },
        },
      });
      const { status } = answer as KubeObject & { readonly status?: { readonly token?: string; readonly expirationTimestamp?: string } }; // a TokenRequest's answer
      const expiresAtMs = parseTime(status?.expirationTimestamp);
      if (typeof status?.token !== "string" || expiresAtMs === undefined)
        throw new Error(`no token for serviceaccount ${namespace}/${serviceAccount}`);
      return { token: status.token, issuedAtMs, expiresAtMs };
    };
    return await this.#read({ namespace, key, isFresh, read });
  }

  /** Objects and tokens that are kept or being read. */
  get size(): number {
    return this.#kept() + this.#reading.size;
  }

  /** The pod is gone, and nobody may use its tokens any more. */
  forget(podUid: string): void {
    for (const { entries } of this.#shelves.values())
      for (const key of entries.keys()) if (key.startsWith(`token/${podUid}/`)) entries.delete(key);
  }

  /** OC4 */
  tidy(): void {
    const nowMs = this.#clock.now();
    for (const [namespace, { entries, reads }] of this.#shelves) {
      for (const [key, { usedAtMs }] of entries) {
        if (nowMs - usedAtMs <= UNUSED_MS) break;
        entries.delete(key);
      }
      if (entries.size === 0 && reads === 0) this.#shelves.delete(namespace);
    }
  }

  #kept(): number {
    return [...this.#shelves.values()].reduce((sum, { entries }) => sum + entries.size, 0);
  }

  #shelf(namespace: string): Shelf {
    let shelf = this.#shelves.get(namespace);
    if (shelf === undefined) this.#shelves.set(namespace, (shelf = { entries: new Map(), reads: 0, waiting: new Set() }));
    return shelf;
  }

  async #read<T>(wanted: Wanted<T>): Promise<T> {
    const { namespace, key, isFresh } = wanted;
    const shelf = this.#shelf(namespace);
    const known = shelf.entries.get(key) as Entry<T> | undefined; // one key is read with one type
    if (known !== undefined) this.#keep(shelf, key, known);
    if (known !== undefined && isFresh(known)) return known.value;
    const running = this.#reading.get(key) as Promise<T> | undefined; // as above
    if (running !== undefined) return await running;
    const reading = this.#readNow(wanted, shelf, known).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return await reading;
  }

  #keep({ entries }: Shelf, key: string, { value, readAtMs }: Pick<Entry<unknown>, "value" | "readAtMs">): void {
    entries.delete(key); // so that it goes to the end
    entries.set(key, { value, readAtMs, usedAtMs: this.#clock.now() });
  }

  /** OC5 */
  #makeRoom(): void {
    for (let surplus = this.#kept() - ENTRIES_MAX; surplus > 0; surplus--) {
      const { entries } = [...this.#shelves.values()].reduce((a, b) => (b.entries.size > a.entries.size ? b : a));
      const [oldest] = entries.keys();
      if (oldest !== undefined) entries.delete(oldest);
    }
  }

  /** @throws {NotSentError} when there is none in time. @returns what gives it back */
  async #place(shelf: Shelf): Promise<() => void> {
    if (shelf.reads < READS_AT_ONCE_MAX) shelf.reads++;
    else {
      const got = new AbortController();
      const take = (): void => got.abort();
      shelf.waiting.add(take);
      await this.#clock.after(NODE_CALL_WAIT_MS_MAX, got.signal).catch(() => undefined);
      if (shelf.waiting.delete(take)) throw new NotSentError(`not sent within ${NODE_CALL_WAIT_MS_MAX} ms`);
    }
    return () => {
      const [next] = shelf.waiting;
      if (next === undefined) return void shelf.reads--;
      shelf.waiting.delete(next);
      next();
    };
  }

  async #readNow<T>({ key, read }: Wanted<T>, shelf: Shelf, known: Entry<T> | undefined): Promise<T> {
    let leave: (() => void) | undefined;
    try {
      leave = await this.#place(shelf);
      const readAtMs = this.#clock.now();
      const value = await read();
      this.#keep(shelf, key, { value, readAtMs });
      this.#makeRoom();
      return value;
    } catch (error) {
      const saysNothing = isUnanswered(error) || isTooManyRequests(error) || error instanceof NotSentError;
      if (known !== undefined && saysNothing) return known.value;
      throw error;
    } finally {
      leave?.();
    }
  }
}

function isImmutable(object: KubeObject | undefined): boolean {
  return (object as { readonly immutable?: boolean } | undefined)?.immutable === true; // ConfigMaps and Secrets have the field
}
