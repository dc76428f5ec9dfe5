/**
 * Secrets, ConfigMaps, RuntimeClasses and Services that this node's pods name, and the tokens made for them (node-agent §10, Refresh): in memory only.
 *
 * OC1 a read is at most `FRESH_MS` old, or was asked for just now; an `immutable` object is read once; that there is none is believed
 *    for `ABSENT_FRESH_MS`.
 * OC2 while the API server does not answer, the last state read stands in; what was never read is an error.
 * OC3 one read of one object at a time, however many pods name it.
 * OC4 what nobody asked for in `UNUSED_MS` is dropped: a pod asks for all that it names each time it is looked at.
 */
import type { KubeObject } from "../../api/wire.ts";
import { parseTime } from "../../api/time.ts";
import type { Clock } from "../../ports/clock.ts";
import { isTooManyRequests, isUnanswered, NotSentError } from "../../ports/errors.ts";
import type { KubeReader, KubeWriter } from "../../ports/kube.ts";

const FRESH_MS = 5_000;
/** Whoever needs it asks again soon, and not everybody who does should be a read. */
const ABSENT_FRESH_MS = 500;
const SERVICES_FRESH_MS = 15_000;
const ENTRIES_MAX = 2_000;
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

export class ObjectCache {
  readonly #kube: KubeReader & KubeWriter;
  readonly #clock: Clock;
  /** Those first that nobody asked for for longest. */
  readonly #entries = new Map<string, Entry<unknown>>();
  readonly #reading = new Map<string, Promise<unknown>>();

  constructor(kube: KubeReader & KubeWriter, clock: Clock) {
    this.#kube = kube;
    this.#clock = clock;
  }

  /** undefined = the API server says that there is none. RuntimeClasses are in no namespace, `""`. */
  async get(resource: "configmaps" | "secrets" | "runtimeclasses", namespace: string, name: string): Promise<KubeObject | undefined> {
    const isFresh = ({ value, readAtMs }: Entry<KubeObject | undefined>): boolean =>
      isImmutable(value) || this.#clock.now() - readAtMs < (value === undefined ? ABSENT_FRESH_MS : FRESH_MS);
    return await this.#read(`${resource}/${namespace}/${name}`, isFresh, () => this.#kube.get(resource, namespace, name));
  }

  /** All namespaces; at least all that were there at `sinceMs`. */
  async services(sinceMs: number): Promise<readonly KubeObject[]> {
    const isFresh = ({ readAtMs }: Entry<unknown>): boolean => readAtMs >= sinceMs && this.#clock.now() - readAtMs < SERVICES_FRESH_MS;
    return await this.#read("services", isFresh, async () => (await this.#kube.list("services", "")).items);
  }

  /** `renewAtMs` says when a token that is held is too old. @throws what the API server answers to the TokenRequest */
  async token(request: TokenRequest, renewAtMs: (held: ServiceAccountToken) => number): Promise<ServiceAccountToken> {
    const { namespace, serviceAccount, audience, expirationSeconds, pod } = request;
    const key = `token/${pod.uid}/${serviceAccount}/${audience}/${expirationSeconds}`;
    const isFresh = ({ value }: Entry<ServiceAccountToken>): boolean => this.#clock.now() < renewAtMs(value);
    return await this.#read(key, isFresh, async () => {
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
    });
  }

  /** Objects and tokens that are kept or being read. */
  get size(): number {
    return this.#entries.size + this.#reading.size;
  }

  /** The pod is gone, and nobody may use its tokens any more. */
  forget(podUid: string): void {
    for (const key of this.#entries.keys()) if (key.startsWith(`token/${podUid}/`)) this.#entries.delete(key);
  }

  /** OC4 */
  tidy(): void {
    const nowMs = this.#clock.now();
    for (const [key, { usedAtMs }] of this.#entries) {
      if (nowMs - usedAtMs <= UNUSED_MS) return;
      this.#entries.delete(key);
    }
  }

  async #read<T>(key: string, isFresh: (entry: Entry<T>) => boolean, read: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(key) as Entry<T> | undefined; // one key is read with one type
    if (known !== undefined) this.#keep(key, known.value, known.readAtMs);
    if (known !== undefined && isFresh(known)) return known.value;
    const running = this.#reading.get(key) as Promise<T> | undefined; // as above
    if (running !== undefined) return await running;
    const reading = this.#readNow(key, known, read).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return await reading;
  }

  #keep(key: string, value: unknown, readAtMs: number): void {
    this.#entries.delete(key); // so that it goes to the end
    this.#entries.set(key, { value, readAtMs, usedAtMs: this.#clock.now() });
  }

  async #readNow<T>(key: string, known: Entry<T> | undefined, read: () => Promise<T>): Promise<T> {
    const readAtMs = this.#clock.now();
    try {
      const value = await read();
      this.#keep(key, value, readAtMs);
      for (const oldest of this.#entries.keys()) {
        if (this.#entries.size <= ENTRIES_MAX) break;
        this.#entries.delete(oldest);
      }
      return value;
    } catch (error) {
      const saysNothing = isUnanswered(error) || isTooManyRequests(error) || error instanceof NotSentError;
      if (known !== undefined && saysNothing) return known.value;
      throw error;
    }
  }
}

function isImmutable(object: KubeObject | undefined): boolean {
  return (object as { readonly immutable?: boolean } | undefined)?.immutable === true; // ConfigMaps and Secrets have the field
}
