/**
 * The API server, as three small capabilities. One adapter (shared/kube/http) serves them, over HTTP and straight into
 * the in-memory API server; both pass test/conformance/kube.ts.
 */
import type { CachedResource, Resource } from "../objects/resources.ts";
import type { KubeObject } from "../objects/wire.ts";
import type { RetryBudget } from "@deltaloop/base";

/** Calls that one client has on their way at once. More wait for one of them to end, so nobody should begin more at a time. */
export const CALLS_AT_ONCE_MAX = 32;

/** All that one client can do. A function takes what it needs of it. */
export type Kube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** Of every call of a KubeReader or KubeWriter. */
export interface CallOptions {
  /** Absent: as patient as the adapter was made. */
  readonly retryBudget?: RetryBudget;
}

/**
 * Reads of whole objects, always quorum reads (no resourceVersion sent).
 *
 * KC1 "not found" is `undefined`, not an exception; every other refusal is a KubeApiError, no answer an UnansweredError.
 * KC2 a read never returns a state older than a write whose answer this process has seen.
 * KC3 a call without answer ends after the request timeout (12 s, also sent as `timeout=12s`), counted from when it was sent.
 * KC4 a 429 or 5xx with a Retry-After header, and of reads a connection that was reset, is waited for and sent again, at most ten
 *    times, as client-go does; never when `retryBudget` would be over. Then the last answer is the answer.
 * KC5 a call that waits for a free connection longer than its retry budget, or than 30 s, is a NotSentError.
 * KC6 no more than 64 MiB of an answer is read; a larger one is an AnswerTooLargeError, which names the call and nothing of the content. A
 *    `list` then goes on with smaller pages, as does whoever calls `listPage` (page-size.ts).
 * KC7 in a pod template, read or written, every integer is exact: a bigint where no number holds it (shared/base/exact-json.ts).
 */
export interface KubeReader {
  get(resource: Resource, namespace: string, name: string, options?: CallOptions): Promise<KubeObject | undefined>;
  /** All pages, in one consistent list. */
  list(resource: Resource, namespace: string, options?: CallOptions & { readonly labelSelector?: string }): Promise<KubeList>;
}

export interface KubeList {
  readonly resourceVersion: string;
  readonly items: readonly KubeObject[];
}

/** Of every write but a DELETE, which knows none. */
export interface ManagedWrite extends CallOptions {
  /** Whose write it is, in `managedFields`. Absent: the adapter's own. */
  readonly fieldManager?: string;
}

/**
 * Writes. Each carries its precondition and `fieldManager`; the answer is the object as the server stored it.
 *
 * KW1 a refusal is a KubeApiError with the server's own `reason`, `code` and causes.
 * KW2 a call that may have been executed without our seeing the answer is an UnansweredError or a 5xx that is not admission's
 *    (`isUnanswered`).
 * KW3 a mutating call is sent again only after an answer that asks for it (KC4), and no sending starts unless
 *    `retryBudget.mayStart()`. One without an answer is never repeated. After a 5xx it is repeated as client-go does, which is safe
 *    because every write carries its name or precondition; should a later sending then be refused, the error still counts as
 *    unanswered (`KubeApiError.earlierUnanswered`).
 * KW4 a NotSentError was not executed (KC5, or the retry budget was over before the first sending).
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

export interface CreateRequest extends ManagedWrite {
  readonly resource: Resource;
  readonly namespace: string;
  /** A POST to a part of an object: `token` of a service account is a TokenRequest, `binding` of a pod gives it its node. */
  readonly of?: { readonly name: string; readonly subresource: "token" | "binding" };
  /** The whole object, name included. Not readonly-typed deeper: it is built, sent and forgotten. */
  readonly body: object;
}

export type PatchType = "application/merge-patch+json" | "application/strategic-merge-patch+json" | "application/json-patch+json";

export interface PatchRequest extends Target, ManagedWrite {
  readonly subresource?: "status";
  readonly type: PatchType;
  readonly body: object;
}

export interface DeleteRequest extends Target, CallOptions {
  readonly preconditions: { readonly uid: string; readonly resourceVersion?: string };
  /** Only the node agent gives one: 0 ends a pod's graceful deletion. */
  readonly gracePeriodSeconds?: number;
}

export interface ReplaceRequest extends Target, CallOptions {
  readonly body: object;
}

/**
 * Lists and watches for the Reflector: pages and lines as the server sent them, decoded by the caller.
 *
 * KL1 every parameter of the request is the caller's; the adapter adds none.
 * KL2 a refusal before the stream starts is a KubeApiError, also when the server put it in the body.
 * KL3 a stream yields complete lines in order, grouped as they arrived; a partial tail at the end is dropped.
 * KL4 a clean end returns, a broken connection throws UnansweredError; both are ordinary.
 * KL5 no byte for `inactivityMs` aborts the stream (UnansweredError).
 * KL6 aborting the signal ends the call promptly and closes the connection.
 * KL7 a page is asked for again as any read (KC4). A watch that is refused is not: its caller's back-off knows Retry-After, and
 *    how often it was refused before.
 * KL8 `newestVersion` is a quorum read: whatever version anybody saw of the resource before it was asked is not greater, unless the
 *    server's history went back.
 */
export interface KubeWatch<R extends Resource = CachedResource> {
  listPage(resource: R, query: ListQuery, signal: AbortSignal): Promise<ListPage>;
  watch(resource: R, query: WatchQuery, signal: AbortSignal): AsyncIterable<readonly string[]>;
  /** The resourceVersion that a list would have now. */
  newestVersion(resource: R, query: Pick<ListQuery, "fieldSelector">, signal: AbortSignal): Promise<string>;
}

export interface ListQuery {
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "NotOlderThan" | "Exact";
  /** Items are PartialObjectMetadata. A server that does not know them may send whole objects, of which that is a part. */
  readonly metadataOnly?: true;
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
  /** Both or none: first everything there is, then a bookmark that says so, then what happens (WatchList). */
  readonly sendInitialEvents?: true;
  readonly resourceVersionMatch?: "NotOlderThan";
  readonly allowWatchBookmarks: boolean;
  readonly timeoutSeconds: number;
}
