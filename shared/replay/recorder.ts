/**
 * Writes down what passes between an API server and a Reflector (informer §18). It stands at the transport, so a capture
 * holds what came, in the order in which it came, whatever was made of it.
 */
import type { Digester } from "../api/digest.ts";
import { RESOURCES } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import type { Clock } from "../ports/clock.ts";
import { KubeApiError } from "../ports/errors.ts";
import type { KubeWatch, ListPage, ListQuery, WatchQuery } from "../ports/kube.ts";
import { CAPTURE_FORMAT } from "./capture.ts";
import { redacted } from "./redact.ts";

export interface RecorderOptions {
  /** Takes one line without its newline. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
  /** Whose prefix the meta line names; the key itself is never written. */
  readonly digester: Digester;
  /** Objects as received, templates and all. The meta line says so. */
  readonly raw: boolean;
  readonly server: string;
}

export function recordingWatch(kube: KubeWatch, options: RecorderOptions): KubeWatch {
  const { clock, digester, raw } = options;
  let lines = 0;
  const started = clock.now();
  const put = (fields: object): void => {
    const now = clock.now();
    options.write(
      JSON.stringify({ t: new Date(now).toISOString().replace("Z", "000Z"), n: lines++, m: (now - started) * 1000, ...fields }),
    );
  };
  const seen = (resource: CachedResource, object: unknown): unknown => (raw ? object : redacted(resource, object, digester));
  put({ k: "meta", format: CAPTURE_FORMAT, server: options.server, raw, digest: raw ? undefined : digester.prefix });

  return {
    async listPage(resource: CachedResource, query: ListQuery, signal: AbortSignal): Promise<ListPage> {
      const page = await kube.listPage(resource, query, signal);
      for (const item of page.items) {
        try {
          put({ r: resource, k: "item", object: seen(resource, item) });
        } catch {
          putUndecodable(resource, JSON.stringify(item));
        }
      }
      if (page.continue === undefined) put({ r: resource, k: "listend", rv: page.resourceVersion });
      return page;
    },
    newestVersion: (...asked) => kube.newestVersion(...asked),
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
        throw error;
      } finally {
        put({ r: resource, k: "close", how });
      }
    },
  };

  /** What cannot be decoded cannot be stripped either: only a raw capture keeps its bytes. */
  function putUndecodable(resource: CachedResource, text: string): void {
    put({ r: resource, k: "raw", bytes: Buffer.byteLength(text), b: raw ? Buffer.from(text).toString("base64") : undefined });
  }

  function putEvent(resource: CachedResource, line: string): void {
    try {
      const { type, object } = JSON.parse(line) as { readonly type: string; readonly object: unknown };
      const known = type === "ADDED" || type === "MODIFIED" || type === "DELETED";
      put({ r: resource, type, object: known ? seen(resource, object) : raw ? object : bare(resource, type, object) });
    } catch {
      putUndecodable(resource, line);
    }
  }
}

/** A bookmark carries a version and nothing else worth keeping; an ERROR carries a Status, of which code and reason count. */
function bare(resource: CachedResource, type: string, object: unknown): unknown {
  if (type !== "BOOKMARK") {
    const { kind, code, reason } = object as { readonly kind?: string; readonly code?: number; readonly reason?: string };
    return { kind, code, reason };
  }
  const { metadata } = object as { readonly metadata?: { readonly resourceVersion?: string; readonly annotations?: object } };
  return { kind: RESOURCES[resource].kind, metadata: { resourceVersion: metadata?.resourceVersion, annotations: metadata?.annotations } };
}
