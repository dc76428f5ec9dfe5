/** One event of a watch stream, decoded. Source: apimachinery pkg/apis/meta/v1/watch.go WatchEvent. */
import { parseExact } from "@deltaloop/base";
import { KubeApiError } from "../client/errors.ts";
import { messageOf } from "../objects/errors.ts";
import type { WatchFrame } from "../client/kube.ts";
import { decodeEvent } from "../protobuf/envelope.ts";
import type { Fields } from "../protobuf/fields.ts";

export type WatchLine =
  | { readonly kind: "change"; readonly type: "A" | "M" | "D"; readonly object: unknown; readonly rv: string | undefined }
  /** `endsInitialEvents`: the initial list of a WatchList is complete at `rv`. */
  | { readonly kind: "bookmark"; readonly rv: string | undefined; readonly endsInitialEvents: boolean }
  /** An ERROR event: the response is HTTP 200, and the event has a Status (informer §2.1). */
  | { readonly kind: "error"; readonly error: KubeApiError }
  | { readonly kind: "undecodable"; readonly why: string };

/** Source: apimachinery pkg/apis/meta/v1/types.go InitialEventsAnnotationKey. */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";
/** Characters of an unknown type that a log line quotes. */
const TYPE_SHOWN = 64;
const TYPES: Readonly<Record<string, "A" | "M" | "D">> = { ADDED: "A", MODIFIED: "M", DELETED: "D" };

const NONE: Fields = {};

/** `fields`: those that a protobuf frame is decoded to. */
export function parseWatchLine(line: WatchFrame, fields = NONE): WatchLine {
  let event: { readonly type?: unknown; readonly object?: StatusLike };
  try {
    event = decoded(line, fields) as typeof event; // each field is checked below
  } catch (error) {
    return { kind: "undecodable", why: typeof line === "string" ? "not JSON" : messageOf(error) }; // a SyntaxError quotes the line
  }
  if (typeof event?.type !== "string" || typeof event.object !== "object" || event.object === null)
    return { kind: "undecodable", why: "not a watch event" };
  // A pod of a stripped capture is already flat (CachedPod); replay passes it unchanged.
  const version = event.object.metadata?.resourceVersion ?? event.object.resourceVersion;
  const rv = typeof version === "string" ? version : undefined;
  const type = TYPES[event.type];
  if (type) return { kind: "change", type, object: event.object, rv };
  if (event.type === "BOOKMARK")
    return { kind: "bookmark", rv, endsInitialEvents: event.object.metadata?.annotations?.[INITIAL_EVENTS_END] === "true" };
  if (event.type === "ERROR") return { kind: "error", error: errorOf(event.object) };
  return { kind: "undecodable", why: `event type "${event.type.slice(0, TYPE_SHOWN)}"` };
}

function decoded(line: WatchFrame, fields: Fields): unknown {
  if (typeof line === "string") return parseExact(line);
  return Buffer.isBuffer(line) ? decodeEvent(line, fields) : line;
}

interface StatusLike {
  readonly metadata?: { readonly resourceVersion?: unknown; readonly annotations?: Readonly<Record<string, unknown>> };
  readonly resourceVersion?: unknown;
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly retryAfterSeconds?: number; readonly causes?: KubeApiError["causes"] };
}

function errorOf(status: StatusLike): KubeApiError {
  return new KubeApiError({
    code: typeof status.code === "number" ? status.code : 500,
    reason: status.reason,
    message: status.message,
    retryAfterSeconds: status.details?.retryAfterSeconds,
    causes: status.details?.causes,
  });
}
