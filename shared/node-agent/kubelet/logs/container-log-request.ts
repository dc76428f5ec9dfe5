/**
 * Parses `GET /containerLogs/{ns}/{pod}/{container}` (node-agent §15). The first value of a parameter counts. A boolean parameter is true
 * unless it is `0` or `false`. Source: pkg/kubelet/server/server.go getContainerLogs; pkg/apis/core/v1/validation ValidatePodLogOptions;
 * apimachinery pkg/runtime/conversion.go.
 */

export interface ContainerLogRequest {
  readonly follow: boolean;
  /** Whether to read the log of the previous instance. */
  readonly previous: boolean;
  readonly timestamps: boolean;
  readonly tailLines?: number;
  readonly limitBytes?: number;
  /** Returns only lines written at or after this time: `sinceTime`, or now minus `sinceSeconds`. */
  readonly sinceMs?: number;
}

export type ParsedLogRequest =
  | { readonly kind: "request"; readonly request: ContainerLogRequest }
  | { readonly kind: "refused"; readonly code: 400 | 422; readonly text: string };

type Query = Pick<URLSearchParams, "get">;

const MS_PER_SECOND = 1_000;
const INT64_MAX = 2 ** 63;
const STREAMS = ["All", "Stdout", "Stderr"];
/** Matches RFC 3339 as Go parses it: a fraction of any length, and an offset or Z. */
const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/u;

/**
 * `tail` is an older name of `tailLines`; `tail=all` means all. Differs from upstream: rejects `stream=Stderr` before it looks up the pod
 * (the feature gate is off in 1.36).
 */
export function parseContainerLogRequest(query: Query, nowMs: number): ParsedLogRequest {
  const sinceTime = query.get("sinceTime") ?? "";
  const tail = query.get("tail") ?? "";
  const numbers = {
    tailLines: tail === "" ? integer(query.get("tailLines")) : integer(tail === "all" ? null : tail),
    limitBytes: integer(query.get("limitBytes")),
    sinceSeconds: integer(query.get("sinceSeconds")),
  };
  const { tailLines, limitBytes, sinceSeconds } = numbers;
  if (Object.values(numbers).some(Number.isNaN)) return UNREADABLE;
  if (sinceTime !== "" && !(RFC3339.test(sinceTime) && Number.isFinite(Date.parse(sinceTime)))) return UNREADABLE;

  if (tailLines !== undefined && tailLines < 0) return INVALID;
  if (limitBytes !== undefined && limitBytes < 1) return INVALID;
  if (sinceSeconds !== undefined && (sinceTime !== "" || sinceSeconds < 1)) return INVALID;
  const stream = query.get("stream") ?? "All";
  if (!STREAMS.includes(stream) || (stream !== "All" && tailLines !== undefined)) return INVALID;
  if (stream !== "All") return { kind: "refused", code: 400, text: streamText(stream) };

  return {
    kind: "request",
    request: {
      follow: isOn(query.get("follow")),
      previous: isOn(query.get("previous")),
      timestamps: isOn(query.get("timestamps")),
      ...(tailLines !== undefined && { tailLines }),
      ...(limitBytes !== undefined && { limitBytes }),
      ...(sinceTime !== "" && { sinceMs: Date.parse(sinceTime) }),
      ...(sinceSeconds !== undefined && { sinceMs: nowMs - sinceSeconds * MS_PER_SECOND }),
    },
  };
}

const UNREADABLE = { kind: "refused", code: 400, text: `{"message": "Unable to decode query."}` } as const;
const INVALID = { kind: "refused", code: 422, text: `{"message": "Invalid request."}` } as const;

function streamText(stream: string): string {
  return `unable to return the given log stream: "${stream}". Please enable PodLogsQuerySplitStreams feature gate in kubelet`;
}

/** Returns NaN if the text is not a 64-bit integer. */
function integer(text: string | null): number | undefined {
  if (text === null) return undefined;
  const value = /^[+-]?\d+$/u.test(text) ? Number(text) : Number.NaN;
  return Math.abs(value) < INT64_MAX ? value : Number.NaN;
}

function isOn(text: string | null): boolean {
  return text !== null && text !== "0" && text.toLowerCase() !== "false";
}
