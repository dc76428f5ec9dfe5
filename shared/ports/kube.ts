/**
 * The API server, as four small capabilities. One adapter (shared/adapters/kube-http) and the in-memory API server behind
 * it serve them; both pass test/conformance/kube.ts.
 */
import type { CachedResource, Resource } from "../api/resources.ts";
import type { KubeObject } from "../api/wire.ts";

/**
 * Reads of whole objects, always quorum reads (no resourceVersion sent).
 *
 * K1 "not found" is `undefined`, not an exception; every other refusal is a KubeApiError, no answer an UnansweredError.
 * K2 a read never returns a state older than a write whose answer this process has seen.
 * K3 a call without answer ends after the request timeout (5 s, also sent as `timeout=5s`).
 */
export interface KubeReader {
  get(resource: Resource, namespace: string, name: string): Promise<KubeObject | undefined>;
  /** All pages, in one consistent list. */
  list(resource: Resource, namespace: string, options?: { readonly labelSelector?: string }): Promise<KubeList>;
}

export interface KubeList {
  readonly resourceVersion: string;
  readonly items: readonly KubeObject[];
}

/**
 * Writes. Each carries its precondition and `fieldManager`; the answer is the object as the server stored it.
 *
 * W1 a refusal is a KubeApiError with the server's own `reason`, `code` and causes.
 * W2 a call that may have been executed without our seeing the answer is an UnansweredError or a 5xx (`isUnanswered`).
 * W3 the writer never retries a mutating call by itself.
 */
export interface KubeWriter {
  create(request: CreateRequest): Promise<KubeObject>;
  patch(request: PatchRequest): Promise<KubeObject>;
  /** The object's last state, or what stands in its place while it terminates; `undefined` when only a Status came. */
  delete(request: DeleteRequest): Promise<KubeObject | undefined>;
  /** PUT, used for the watcher's Lease alone. */
  replace(request: ReplaceRequest): Promise<KubeObject>;
}

export interface Target {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
}

export interface CreateRequest {
  readonly resource: Resource;
  readonly namespace: string;
  /** A POST to a part of an object: `{ name: "default", subresource: "token" }` of serviceaccounts is a TokenRequest. */
  readonly of?: { readonly name: string; readonly subresource: "token" };
  /** The whole object, name included. Not readonly-typed deeper: it is built, sent and forgotten. */
  readonly body: object;
}

export type PatchType = "application/merge-patch+json" | "application/strategic-merge-patch+json" | "application/json-patch+json";

export interface PatchRequest extends Target {
  readonly subresource?: "status";
  readonly type: PatchType;
  readonly body: object;
}

export interface DeleteRequest extends Target {
  readonly preconditions: { readonly uid: string; readonly resourceVersion?: string };
  /** Only the node agent gives one: 0 ends a pod's graceful deletion. */
  readonly gracePeriodSeconds?: number;
}

export interface ReplaceRequest extends Target {
  readonly body: object;
}

/**
 * Lists and watches for the Reflector: pages and lines as the server sent them, decoded by the caller.
 *
 * L1 every parameter of the request is the caller's; the adapter adds none.
 * L2 a refusal before the stream starts is a KubeApiError, also when the server put it in the body.
 * L3 a stream yields complete lines in order, grouped as they arrived; a partial tail at the end is dropped.
 * L4 a clean end returns, a broken connection throws UnansweredError; both are ordinary.
 * L5 no byte for `inactivityMs` aborts the stream (UnansweredError).
 * L6 aborting the signal ends the call promptly and closes the connection.
 */
export interface KubeWatch<R extends Resource = CachedResource> {
  listPage(resource: R, query: ListQuery, signal: AbortSignal): Promise<ListPage>;
  watch(resource: R, query: WatchQuery, signal: AbortSignal): AsyncIterable<readonly string[]>;
}

export interface ListQuery {
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "NotOlderThan" | "Exact";
}

export interface ListPage {
  readonly resourceVersion: string;
  readonly continue?: string;
  /** Undecoded: each item is checked and stripped one by one, so that a bad one is named and its neighbours live. */
  readonly items: readonly unknown[];
}

export interface WatchQuery {
  readonly fieldSelector?: string;
  readonly resourceVersion?: string;
  readonly allowWatchBookmarks: boolean;
  readonly timeoutSeconds: number;
}
