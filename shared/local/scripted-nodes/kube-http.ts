/**
 * What scripted nodes need of an API server: three calls, over HTTP or in process.
 *
 * SK1 a refusal is a KubeHttpError with the server's code and reason; no answer is any other error.
 * SK2 `watch` resolves when the server ends it cleanly and rejects for everything else; an ERROR event rejects with its Status.
 * SK3 `list` is one consistent list, all pages.
 */
export interface KubeHttp {
  list(path: string, query?: Query): Promise<KubeHttpList>;
  watch(path: string, query: Query, onEvent: (event: KubeHttpEvent) => void, signal: AbortSignal): Promise<void>;
  /** The decoded answer. Without `contentType` a body is sent as JSON. */
  request(method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: object, contentType?: string): Promise<KubeHttpObject>;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** Any object, as it came. */
export interface KubeHttpObject {
  readonly [key: string]: unknown;
}

export interface KubeHttpList {
  readonly resourceVersion: string;
  readonly items: readonly KubeHttpObject[];
}

export interface KubeHttpEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: KubeHttpObject;
}

/** The API server has answered, and refuses. */
export class KubeHttpError extends Error {
  readonly code: number;
  readonly reason: string;

  constructor(code: number, reason: string, message: string) {
    super(message);
    this.name = "KubeHttpError";
    this.code = code;
    this.reason = reason;
  }
}

/** A Status as an error. */
export function errorOf(code: number, status: unknown): KubeHttpError {
  const {
    reason,
    message,
    code: own,
  } = typeof status === "object" && status !== null ? (status as { reason?: unknown; message?: unknown; code?: unknown }) : {};
  return new KubeHttpError(
    typeof own === "number" ? own : code,
    typeof reason === "string" ? reason : "",
    typeof message === "string" ? message : `the API server answered ${code}`,
  );
}

const PAGE_LIMIT = 500;

/** All pages of a list, given how to read one. */
export async function readPages(page: (query: Query) => Promise<KubeHttpObject>, query: Query = {}): Promise<KubeHttpList> {
  const items: KubeHttpObject[] = [];
  let next: string | undefined;
  while (true) {
    const { metadata, items: some } = await page({ ...query, limit: PAGE_LIMIT, continue: next });
    const meta: { resourceVersion?: unknown; continue?: unknown } = typeof metadata === "object" && metadata !== null ? metadata : {};
    if (Array.isArray(some)) items.push(...some);
    if (typeof meta.continue !== "string" || meta.continue === "") return { resourceVersion: String(meta.resourceVersion ?? ""), items };
    next = meta.continue;
  }
}

/** `path?a=1&b=2`, leaving out what is undefined. */
export function withQuery(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  const text = search.toString();
  return text === "" ? path : `${path}?${text}`;
}
