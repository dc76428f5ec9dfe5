/**
 * Records the traffic between an API server and a Reflector (informer §18). It wraps the transport, so a capture
 * holds everything received, in order, whatever happens to it later.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText, parseExact } from "@deltaloop/base";
import { RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import { KubeApiError } from "@deltaloop/kube/client";
import type { KubeWatch, ListPage, ListQuery, WatchQuery } from "@deltaloop/kube/client";
import { CAPTURE_FORMAT } from "./capture.ts";
import { redacted } from "./redact.ts";

export interface RecorderOptions {
  /** Takes one line without its newline; first called with the first event. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
  /** The meta line has its prefix; the key itself is never written. */
  readonly digester: Digester;
  /** Keeps objects as received, templates included. The meta line records this. */
  readonly raw: boolean;
  readonly server: string;
  /** Keeps every object, so that `restart` can list them. Default: no. */
  readonly keeps?: boolean;
}

export interface RecordingWatch extends KubeWatch {
  /** A list is in progress: no new file can begin between its pages. */
  readonly isListing: boolean;
  /** Begins another file: a meta line, and all current objects as a list of each resource. */
  restart(): void;
}

/** State of one resource, as needed for gaps and new files. */
interface ResourceState {
  /** The newest recorded version; undefined: not listed yet. */
  version?: string;
  /** Its time by the recorder's clock. */
  atMs: number;
  /** Why its last watch ended, unless cleanly. */
  ended?: string;
  listing?: { readonly keys: Set<string> };
  /** Filled only if `keeps` is set. */
  readonly objects: Map<string, unknown>;
}

export function recordingWatch(kube: KubeWatch, options: RecorderOptions): RecordingWatch {
  const { clock, digester, raw, keeps = false } = options;
  const states = new Map<CachedResource, ResourceState>();
  let lines = 0;
  const started = clock.now();
  const put = (fields: object): void => {
    if (lines === 0) begin();
    putLine(fields);
  };
  const putLine = (fields: object): void => {
    const now = clock.now();
    options.write(exactText({ t: new Date(now).toISOString().replace("Z", "000Z"), n: lines++, m: (now - started) * 1000, ...fields }));
  };
  const seen = (resource: CachedResource, object: unknown): unknown => (raw ? object : redacted(resource, object, digester));
  const begin = (): void =>
    putLine({ k: "meta", format: CAPTURE_FORMAT, server: options.server, raw, digest: raw ? undefined : digester.prefix });
  const stateOf = (resource: CachedResource): ResourceState => {
    const known = states.get(resource) ?? { atMs: started, objects: new Map<string, unknown>() };
    states.set(resource, known);
    return known;
  };

  return {
    get isListing(): boolean {
      return [...states.values()].some(({ listing }) => listing !== undefined);
    },
    restart(): void {
      lines = 0;
      begin();
      for (const [resource, { version, objects }] of states) {
        if (version === undefined) continue;
        for (const object of objects.values()) put({ r: resource, k: "item", object });
        put({ r: resource, k: "listend", rv: version });
      }
    },
    async listPage(resource: CachedResource, query: ListQuery, signal: AbortSignal): Promise<ListPage> {
      const of = stateOf(resource);
      const page = await kube.listPage(resource, query, signal).catch((error: unknown) => {
        delete of.listing;
        throw error;
      });
      // A list may restart before it is complete.
      if (query.continue === undefined) of.listing = { keys: new Set() };
      for (const item of page.items) {
        try {
          const object = seen(resource, item);
          put({ r: resource, k: "item", object });
          const key = keyOf(object);
          of.listing?.keys.add(key);
          if (keeps) of.objects.set(key, object);
        } catch {
          putUndecodable(resource, exactText(item));
        }
      }
      if (page.continue === undefined) putListEnd(resource, of, page.resourceVersion);
      return page;
    },
    newestVersion: (...args) => kube.newestVersion(...args),
    async *watch(resource: CachedResource, query: WatchQuery, signal: AbortSignal): AsyncGenerator<readonly string[]> {
      if (query.sendInitialEvents) throw new KubeApiError({ code: 422, reason: "Invalid", message: "lists are captured by pages" });
      let how = "clean";
      try {
        for await (const group of kube.watch(resource, query, signal)) {
          for (const line of group) putEvent(resource, line);
          yield group;
        }
      } catch (error) {
        how = signal.aborted ? "stopped" : "error";
        stateOf(resource).ended = reasonOf(error);
        throw error;
      } finally {
        put({ r: resource, k: "close", how });
      }
    },
  };

  /** A later list follows a gap: only the outcome of the changes in between is known. */
  function putListEnd(resource: CachedResource, of: ResourceState, version: string): void {
    const { version: from, ended, listing } = of;
    if (from !== undefined)
      put({ r: resource, k: "gap", from, to: version, ms: clock.now() - of.atMs, ...(ended !== undefined && { why: ended }) });
    put({ r: resource, k: "listend", rv: version });
    for (const key of of.objects.keys()) if (listing?.keys.has(key) === false) of.objects.delete(key);
    delete of.listing;
    delete of.ended;
    [of.version, of.atMs] = [version, clock.now()];
  }

  /** An undecodable line cannot be stripped: only a raw capture keeps its bytes. */
  function putUndecodable(resource: CachedResource, text: string): void {
    put({ r: resource, k: "raw", bytes: Buffer.byteLength(text), b: raw ? Buffer.from(text).toString("base64") : undefined });
  }

  function noteEvent(of: ResourceState, type: string, object: unknown): void {
    of.atMs = clock.now();
    of.version = metaOf(object).resourceVersion ?? of.version ?? "0";
    if (!keeps || type === "BOOKMARK") return;
    if (type === "DELETED") of.objects.delete(keyOf(object));
    else of.objects.set(keyOf(object), object);
  }

  function putEvent(resource: CachedResource, line: string): void {
    try {
      const { type, object } = parseExact(line) as { readonly type: string; readonly object: unknown };
      const known = type === "ADDED" || type === "MODIFIED" || type === "DELETED";
      const shown = known ? seen(resource, object) : raw ? object : bare(resource, type, object);
      put({ r: resource, type, object: shown });
      if (type === "ERROR") stateOf(resource).ended = reasonOf(object);
      else noteEvent(stateOf(resource), type, shown);
    } catch {
      putUndecodable(resource, line);
    }
  }
}

interface Captured {
  readonly namespace?: string;
  readonly name?: string;
  readonly resourceVersion?: string;
}

/** A stripped pod is flat. */
function metaOf(object: unknown): Captured {
  return (object as { readonly metadata?: Captured }).metadata ?? (object as Captured); // as captured
}

function keyOf(object: unknown): string {
  const { namespace = "", name = "" } = metaOf(object);
  return `${namespace}/${name}`;
}

/** The reason of an ERROR's Status or of a thrown error, never its message. */
function reasonOf(error: unknown): string {
  const { reason, code } = error as { readonly reason?: unknown; readonly code?: unknown };
  return typeof reason === "string" && reason !== "" ? reason : typeof code === "number" ? String(code) : "Error";
}

/** Reduces a bookmark to its version, and an ERROR to the code and reason of its Status. */
function bare(resource: CachedResource, type: string, object: unknown): unknown {
  if (type !== "BOOKMARK") {
    const { kind, code, reason } = object as { readonly kind?: string; readonly code?: number; readonly reason?: string };
    return { kind, code, reason };
  }
  const { metadata } = object as { readonly metadata?: { readonly resourceVersion?: string; readonly annotations?: object } };
  return { kind: RESOURCES[resource].kind, metadata: { resourceVersion: metadata?.resourceVersion, annotations: metadata?.annotations } };
}
