/**
 * The API server as three capabilities. One adapter (shared/kube/http) serves them over HTTP and in process with the in-memory API
 * server; both pass test/conformance/kube.ts.
 */
import type { CachedResource, Resource } from "../objects/resources.ts";
import type { KubeObject } from "../objects/wire.ts";
import type { Fields } from "../protobuf/fields.ts";
import { exactText } from "@deltaloop/base";
import type { RetryBudget } from "@deltaloop/base";

/** Concurrent calls of one client. Further calls queue, so callers should not start more at a time. */
export const CALLS_AT_ONCE_MAX = 32;

/** All capabilities of a client. A function takes only those it needs. */
export type Kube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** Options of every KubeReader and KubeWriter call. */
export interface CallOptions {
  /** Default: the adapter's `waitMsMax`. */
  readonly retryBudget?: RetryBudget;
}

/**
 * Reads of whole objects, always quorum reads (no resourceVersion sent).
 *
 * KC1 "not found" is `undefined`, not an exception; any other rejection is a KubeApiError, a missing response an UnansweredError.
 * KC2 a read never returns a state older than a write whose response this process has received.
 * KC3 a call without response fails after the request timeout (12 s, also sent as `timeout=12s`), counted from sending.
 * KC4 a 429 or 5xx with a Retry-After header is retried after that time, as is a read whose connection was reset: at most ten times, as
 *    client-go does, and within `retryBudget`. Then the last response is final.
 * KC5 a call that waits for a free connection longer than its retry budget, or than 30 s, throws NotSentError.
 * KC6 at most 64 MiB of a response are read; a larger one throws AnswerTooLargeError, which names the call and quotes no content. `list`
 *    then continues with smaller pages, as do callers of `listPage` (page-size.ts).
 * KC7 in a pod template, read or written, every integer is exact: a bigint where a number cannot hold it (shared/base/exact-json.ts).
 */
export interface KubeReader {
  get(resource: Resource, namespace: string, name: string, options?: CallOptions): Promise<KubeObject | undefined>;
  /** All pages as one consistent list. */
  list(resource: Resource, namespace: string, options?: CallOptions & Selectors): Promise<KubeList>;
}

/** Which objects a list contains; default: all. */
export interface Selectors {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface KubeList {
  readonly resourceVersion: string;
  readonly items: readonly KubeObject[];
}

/** Options of every write but DELETE, which has no field manager. */
export interface ManagedWrite extends CallOptions {
  /** Manager in `managedFields`. Default: the adapter's. */
  readonly fieldManager?: string;
  /** Makes the server reject unknown and repeated fields, which it otherwise drops. */
  readonly fieldValidation?: "Strict";
}

/**
 * Writes. Each carries its precondition and `fieldManager`; the response is the object as stored.
 *
 * KW1 if the API server rejects a call, it throws a KubeApiError with the server's own `reason`, `code` and causes.
 * KW2 a call that may have been executed although its response was not received throws UnansweredError or a 5xx that is not admission's
 *    (`isUnanswered`).
 * KW3 a mutating call is retried only after a response that asks for it (KC4), and no attempt starts unless
 *    `retryBudget.mayStart()`. A call without response is never repeated. A retry after a 5xx is safe because every write carries its name
 *    or precondition; if a later attempt is then rejected, the error still counts as unanswered (`KubeApiError.earlierUnanswered`).
 * KW4 a call that throws NotSentError was not executed (KC5, or the retry budget was over before the first attempt).
 */
export interface KubeWriter {
  create(request: CreateRequest): Promise<KubeObject>;
  patch(request: PatchRequest): Promise<KubeObject>;
  /** The last state of the object, or its state while it terminates; `undefined` if the server returned only a Status. */
  delete(request: DeleteRequest): Promise<KubeObject | undefined>;
  /** PUT; used only for the watcher's Lease. */
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
  /** POST to a subresource: `token` of a service account is a TokenRequest, `binding` of a pod assigns a node to it. */
  readonly of?: { readonly name: string; readonly subresource: "token" | "binding" };
  /** The whole object, name included. Not deeply readonly, because it is built and sent once. */
  readonly body: object;
}

export type PatchType =
  | "application/merge-patch+json"
  | "application/strategic-merge-patch+json"
  | "application/json-patch+json"
  /** Server-side apply; the body is JSON, which is YAML too. */
  | "application/apply-patch+yaml";

export interface PatchRequest extends Target, ManagedWrite {
  readonly subresource?: "status";
  readonly type: PatchType;
  /** Makes a server-side apply take fields over from other managers. */
  readonly force?: true;
  readonly body: object;
}

export interface DeleteRequest extends Target, CallOptions {
  readonly preconditions: { readonly uid: string; readonly resourceVersion?: string };
  /** Set only by the node agent: 0 completes a pod's graceful deletion. */
  readonly gracePeriodSeconds?: number;
}

export interface ReplaceRequest extends Target, CallOptions {
  readonly body: object;
}

/**
 * Lists and watches for the Reflector: pages and lines as the server sent them; the caller decodes them.
 *
 * KL1 the adapter adds no query parameters to the caller's.
 * KL2 a rejection before the stream starts is a KubeApiError, also when the server sends it in the body of a 200.
 * KL3 a stream yields complete lines in order, grouped as received; a partial line at the end is dropped. A group is valid until the next
 *    one is requested, and may be empty then.
 * KL4 a clean end returns, a broken connection throws UnansweredError; both are normal.
 * KL5 no byte for `inactivityMs` aborts the stream (UnansweredError).
 * KL6 aborting the signal ends the call and closes the connection.
 * KL7 a page is retried like any read (KC4). A rejected watch is not: the caller's back-off handles Retry-After and counts rejections.
 * KL9 with `fields`, the server may send protobuf: a page's items are then decoded to these fields, and the entries of a stream are frames
 *    (Buffers), each a WatchEvent. If the server sends JSON instead, objects are whole.
 * KL8 `newestVersion` is a quorum read: it is not less than any version of the resource observed before the call, unless the
 *    server's history regressed.
 */
export interface KubeWatch<R extends Resource = CachedResource> {
  listPage(resource: R, query: ListQuery, signal: AbortSignal): Promise<ListPage>;
  watch(resource: R, query: WatchQuery, signal: AbortSignal): AsyncIterable<readonly WatchFrame[]>;
  /** Returns the resourceVersion that a list would have now. */
  newestVersion(resource: R, query: Pick<ListQuery, "fieldSelector">, signal: AbortSignal): Promise<string>;
}

/**
 * One event of a stream: a line of JSON, a protobuf frame, which only a query with `fields` returns, or a decoded event of a server in the
 * same process.
 */
export type WatchFrame = string | Buffer | DecodedEvent;

/** The receiver must not change the object. */
export interface DecodedEvent {
  readonly type: string;
  readonly object: object;
}

/** The line of a watch without `fields`. @throws {TypeError} for a protobuf frame, a bug of the adapter */
export function lineOf(frame: WatchFrame): string {
  if (typeof frame === "string") return frame;
  if (Buffer.isBuffer(frame)) throw new TypeError("a protobuf frame in a watch that did not ask for one");
  return exactText(frame);
}

/** The fields that the caller reads of each object (KL9). Not with `metadataOnly`. */
interface Projected {
  readonly fields?: Fields;
}

export interface ListQuery extends Projected {
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "NotOlderThan" | "Exact";
  /** Items are PartialObjectMetadata. A server without support for them may send whole objects, which include the same metadata. */
  readonly metadataOnly?: true;
}

export interface ListPage {
  readonly resourceVersion: string;
  readonly continue?: string;
  /** Undecoded items. Each item is decoded and stripped separately, so that an invalid item does not affect the others. */
  readonly items: readonly unknown[];
}

export interface WatchQuery extends Projected {
  readonly fieldSelector?: string;
  readonly resourceVersion?: string;
  /** Set both or none: first the initial objects, then a bookmark that marks their end, then changes (WatchList). */
  readonly sendInitialEvents?: true;
  readonly resourceVersionMatch?: "NotOlderThan";
  readonly allowWatchBookmarks: boolean;
  /** Watches only the metadata of objects, as in ListOptions. */
  readonly metadataOnly?: true;
  readonly timeoutSeconds: number;
}
