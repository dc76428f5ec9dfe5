/**
 * In-memory cache of the Secrets, ConfigMaps, ClusterTrustBundles, RuntimeClasses, Services and tokens that this node's pods use
 * (node-agent §10, Refresh).
 *
 * OC1 entries are at most `FRESH_MS` old; `immutable` objects are read once; absence is cached for `ABSENT_FRESH_MS`.
 * OC2 while the API server is unavailable, the last state is returned; a read of an object that is not cached fails.
 * OC3 an object is read at most once at a time.
 * OC4 entries unused for `UNUSED_MS` are dropped; each sync of a pod uses all of its objects.
 * OC5 pods may reference tens of thousands of objects: the namespace with the most entries loses entries first, and each namespace has at
 *    most `READS_AT_ONCE_MAX` reads in flight, which leaves capacity for other calls, such as heartbeats.
 */
import { parseTime, type KubeObject } from "@deltaloop/kube/objects";
import type { TrustBundle } from "../types/projected-sources.ts";
import {
  isNotFound,
  isTooManyRequests,
  isUnanswered,
  NotSentError,
  CALLS_AT_ONCE_MAX,
  type KubeReader,
  type KubeWriter,
} from "@deltaloop/kube/client";
import { NODE_CALL_WAIT_MS_MAX, type Clock } from "@deltaloop/base";

const FRESH_MS = 5_000;
/** Time for which absence is cached. It is short, because callers retry soon, but long enough to merge their reads. */
const ABSENT_FRESH_MS = 500;
const SERVICES_FRESH_MS = 15_000;
const ENTRIES_MAX = 2_000;
const READS_AT_ONCE_MAX = CALLS_AT_ONCE_MAX / 2;
/** A multiple of the longest interval between syncs of a pod. */
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

/** Entries of one namespace; `""` is for cluster-scoped objects. */
interface NamespaceEntries {
  /** Entries, starting with the least recently used. */
  readonly entries: Map<string, Entry<unknown>>;
  reads: number;
  /** Callers that wait for a read slot. */
  readonly waiting: Set<() => void>;
}

/** A requested object. */
interface Read<T> {
  readonly namespace: string;
  readonly key: string;
  readonly isFresh: (entry: Entry<T>) => boolean;
  readonly read: () => Promise<T>;
}

export class ObjectCache {
  readonly #kube: KubeReader & KubeWriter;
  readonly #clock: Clock;
  readonly #namespaces = new Map<string, NamespaceEntries>();
  readonly #reading = new Map<string, Promise<unknown>>();

  constructor(kube: KubeReader & KubeWriter, clock: Clock) {
    this.#kube = kube;
    this.#clock = clock;
  }

  /** Returns undefined if the object does not exist. RuntimeClasses have namespace `""`. */
  async get(resource: "configmaps" | "secrets" | "runtimeclasses", namespace: string, name: string): Promise<KubeObject | undefined> {
    const isFresh = ({ value, readAtMs }: Entry<KubeObject | undefined>): boolean =>
      isImmutable(value) || this.#clock.now() - readAtMs < (value === undefined ? ABSENT_FRESH_MS : FRESH_MS);
    const read = (): Promise<KubeObject | undefined> => this.#kube.get(resource, namespace, name);
    return await this.#read({ namespace, key: `${resource}/${namespace}/${name}`, isFresh, read });
  }

  /** Returns all Services, including at least those that existed at `sinceMs`. */
  async services(sinceMs: number): Promise<readonly KubeObject[]> {
    const isFresh = ({ readAtMs }: Entry<unknown>): boolean => readAtMs >= sinceMs && this.#clock.now() - readAtMs < SERVICES_FRESH_MS;
    return await this.#read({ namespace: "", key: "services", isFresh, read: async () => (await this.#kube.list("services", "")).items });
  }

  /** ClusterTrustBundles; undefined if the API server does not serve them. */
  async trustBundles(fieldSelector: string): Promise<readonly TrustBundle[] | undefined> {
    const isFresh = ({ value = [], readAtMs }: Entry<readonly TrustBundle[] | undefined>): boolean =>
      this.#clock.now() - readAtMs < (value.length === 0 ? ABSENT_FRESH_MS : FRESH_MS);
    const read = async (): Promise<readonly TrustBundle[] | undefined> => {
      try {
        const { items } = await this.#kube.list("clustertrustbundles", "", { fieldSelector });
        return items as readonly TrustBundle[]; // the requested resource implies the type
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    };
    return await this.#read({ namespace: "", key: `clustertrustbundles/${fieldSelector}`, isFresh, read });
  }

  /** Returns a token. `renewAtMs` returns the time from which a cached token must be replaced. @throws the API server's error */
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
      const { status } = answer as KubeObject & { readonly status?: { readonly token?: string; readonly expirationTimestamp?: string } }; // the response is a TokenRequest
      const expiresAtMs = parseTime(status?.expirationTimestamp);
      if (typeof status?.token !== "string" || expiresAtMs === undefined)
        throw new Error(`no token for serviceaccount ${namespace}/${serviceAccount}`);
      return { token: status.token, issuedAtMs, expiresAtMs };
    };
    return await this.#read({ namespace, key, isFresh, read });
  }

  /** Number of cached objects and tokens, plus reads in progress. */
  get size(): number {
    return this.#kept() + this.#reading.size;
  }

  /** Deletes the tokens of a deleted pod. */
  forget(podUid: string): void {
    for (const { entries } of this.#namespaces.values())
      for (const key of entries.keys()) if (key.startsWith(`token/${podUid}/`)) entries.delete(key);
  }

  /** Deletes unused entries (OC4). */
  tidy(): void {
    const nowMs = this.#clock.now();
    for (const [namespace, { entries, reads }] of this.#namespaces) {
      for (const [key, { usedAtMs }] of entries) {
        if (nowMs - usedAtMs <= UNUSED_MS) break;
        entries.delete(key);
      }
      if (entries.size === 0 && reads === 0) this.#namespaces.delete(namespace);
    }
  }

  #kept(): number {
    return [...this.#namespaces.values()].reduce((sum, { entries }) => sum + entries.size, 0);
  }

  #entriesOf(namespace: string): NamespaceEntries {
    let cached = this.#namespaces.get(namespace);
    if (cached === undefined) this.#namespaces.set(namespace, (cached = { entries: new Map(), reads: 0, waiting: new Set() }));
    return cached;
  }

  async #read<T>(wanted: Read<T>): Promise<T> {
    const { namespace, key, isFresh } = wanted;
    const cached = this.#entriesOf(namespace);
    const known = cached.entries.get(key) as Entry<T> | undefined; // each key is always read with the same type
    if (known !== undefined) this.#keep(cached, key, known);
    if (known !== undefined && isFresh(known)) return known.value;
    const running = this.#reading.get(key) as Promise<T> | undefined; // as above
    if (running !== undefined) return await running;
    const reading = this.#readNow(wanted, cached, known).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return await reading;
  }

  #keep({ entries }: NamespaceEntries, key: string, { value, readAtMs }: Pick<Entry<unknown>, "value" | "readAtMs">): void {
    entries.delete(key); // moves the entry to the end
    entries.set(key, { value, readAtMs, usedAtMs: this.#clock.now() });
  }

  /** Evicts entries above the limit (OC5). */
  #makeRoom(): void {
    for (let surplus = this.#kept() - ENTRIES_MAX; surplus > 0; surplus--) {
      const { entries } = [...this.#namespaces.values()].reduce((a, b) => (b.entries.size > a.entries.size ? b : a));
      const [oldest] = entries.keys();
      if (oldest !== undefined) entries.delete(oldest);
    }
  }

  /** Waits for a read slot. @returns a function that releases it @throws {NotSentError} on timeout */
  async #acquireSlot(cached: NamespaceEntries): Promise<() => void> {
    if (cached.reads < READS_AT_ONCE_MAX) cached.reads++;
    else {
      const got = new AbortController();
      const take = (): void => got.abort();
      cached.waiting.add(take);
      await this.#clock.after(NODE_CALL_WAIT_MS_MAX, got.signal).catch(() => undefined);
      if (cached.waiting.delete(take)) throw new NotSentError(`not sent within ${NODE_CALL_WAIT_MS_MAX} ms`);
    }
    return () => {
      const [next] = cached.waiting;
      if (next === undefined) return void cached.reads--;
      cached.waiting.delete(next);
      next();
    };
  }

  async #readNow<T>({ key, read }: Read<T>, cached: NamespaceEntries, known: Entry<T> | undefined): Promise<T> {
    let leave: (() => void) | undefined;
    try {
      leave = await this.#acquireSlot(cached);
      const readAtMs = this.#clock.now();
      const value = await read();
      this.#keep(cached, key, { value, readAtMs });
      this.#makeRoom();
      return value;
    } catch (error) {
      const isTransient = isUnanswered(error) || isTooManyRequests(error) || error instanceof NotSentError;
      if (known !== undefined && isTransient) return known.value;
      throw error;
    } finally {
      leave?.();
    }
  }
}

function isImmutable(object: KubeObject | undefined): boolean {
  return (object as { readonly immutable?: boolean } | undefined)?.immutable === true; // ConfigMaps and Secrets have this field
}
