/**
 * Records the traffic between an API server and a Reflector (informer §18). It wraps the transport, so a capture holds everything received,
 * in order, even if later processing drops it.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText, parseExact, parseRounded } from "@deltaloop/base";
import { RESOURCES } from "@deltaloop/kube/objects";
import type { EvidenceResource } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import { KubeApiError, lineOf } from "@deltaloop/kube/client";
import type { KubeWatch, ListPage, ListQuery, WatchQuery } from "@deltaloop/kube/client";
import { CAPTURE_FORMAT } from "./capture.ts";
import { isEvidenceResource } from "./recorded-resources.ts";
import type { RecordedResource } from "./recorded-resources.ts";
import { recorded } from "./redact.ts";

export interface RecorderOptions {
  /** Receives one line without its newline; first called with the first event. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
  /** Digests values. The meta line has its prefix; the key is never written. */
  readonly digester: Digester;
  /** Keeps objects as received, templates included. The meta line records this. */
  readonly raw: boolean;
  readonly server: string;
  /** The API server's version, such as `v1.37.2`; absent: unknown. */
  readonly kubernetes?: string | undefined;
  /** Keeps every object as the text of its line, so that `restart` can list them. Default: no. */
  readonly keeps?: boolean;
  /** Yields the version of each change instead of the object, for a consumer that parses every line but reads no object. Default: no. */
  readonly yieldsVersions?: boolean;
  /** Resolves once the output takes more: awaited between pages, groups of lines and parts of a new file. */
  readonly room?: () => Promise<void>;
}

/** A capture has whole objects, as JSON. */
function whole<Q extends ListQuery | WatchQuery>({ fields: _fields, ...query }: Q): Omit<Q, "fields"> {
  return query;
}

export interface RecordingWatch extends KubeWatch<RecordedResource> {
  /** Records that the API server refuses to let its user read the resource. */
  denied(resource: EvidenceResource): void;
  /** Records that the API server reports another version from now on. */
  upgraded(version: string): void;
  /** A list is in progress: no new file can begin between its pages. */
  readonly isListing: boolean;
  /** Begins another file: a meta line, and all current objects as a list of each resource. What is received meanwhile follows. */
  restart(): Promise<void>;
}

/** State of one resource, as needed for gaps and new files. */
interface ResourceState {
  /** The newest recorded version; undefined: not listed yet. */
  version?: string;
  /** When it was recorded, by the recorder's clock. */
  atMs: number;
  /** Why its last watch ended, unless cleanly. */
  ended?: string;
  listing?: { readonly keys: Set<string> };
  /** Filled only if `keeps` is set: parsed objects would take three times the memory. */
  readonly objects: Map<string, ObjectText>;
}

/** The object fields of a line. */
interface Shown {
  readonly object: object;
  readonly evidence?: object;
}

/** `"object":{…},"evidence":{…}}`: the end of a line. */
type ObjectText = string;

/** Objects that `restart` writes between two waits for room. */
const RESTART_OBJECTS = 100;

export function recordingWatch(kube: KubeWatch<RecordedResource>, options: RecorderOptions): RecordingWatch {
  const { clock, digester, raw, keeps = false, yieldsVersions = false, room } = options;
  const states = new Map<RecordedResource, ResourceState>();
  const refused = new Set<EvidenceResource>();
  let lines = 0;
  /** The end of a `restart` that is in progress, and what comes after it. */
  let restarting: { readonly end: Promise<void>; readonly later: (() => void)[] } | undefined;
  const started = clock.now();
  const put = (fields: object, object?: ObjectText): void => {
    if (restarting !== undefined) return void restarting.later.push(() => put(fields, object));
    if (lines === 0) begin();
    putLine(fields, object);
  };
  const timeOf = timeTexts();
  const putLine = (fields: object, object?: ObjectText): void => {
    const now = clock.now();
    // A template: JSON.stringify of the three first fields costs a tenth of all that a pod's event does.
    const head = `{"t":"${timeOf(now)}","n":${lines++},"m":${(now - started) * 1000}`;
    const rest = exactText(fields).slice(1);
    options.write(object === undefined ? `${head},${rest}` : `${head},${rest.slice(0, -1)},${object}`);
  };
  const seen = (resource: RecordedResource, object: unknown): Shown => {
    const shown = raw ? { object: object as object } : recorded(resource, object, digester); // the object is as received
    if (shown === undefined) throw new Error(`an object of ${resource} without name, uid or version`);
    return shown;
  };
  const { server } = options;
  let { kubernetes } = options;
  const begin = (): void =>
    putLine({ k: "meta", format: CAPTURE_FORMAT, server, kubernetes, raw, digest: raw ? undefined : digester.prefix });
  const stateOf = (resource: RecordedResource): ResourceState => {
    const known = states.get(resource) ?? { atMs: started, objects: new Map<string, ObjectText>() };
    states.set(resource, known);
    return known;
  };

  return {
    get isListing(): boolean {
      return [...states.values()].some(({ listing }) => listing !== undefined);
    },
    upgraded(version) {
      kubernetes = version;
      if (restarting !== undefined) restarting.later.push(begin);
      else if (lines > 0) begin();
    },
    async restart(): Promise<void> {
      lines = 0;
      begin();
      for (const resource of refused) putLine({ r: resource, k: "denied" });
      const { promise, resolve } = Promise.withResolvers<void>();
      const later: (() => void)[] = [];
      restarting = { end: promise, later };
      for (const [resource, { version, objects }] of states) {
        if (version === undefined) continue;
        let written = 0;
        for (const text of objects.values()) {
          if (written++ % RESTART_OBJECTS === 0) await room?.();
          putLine({ r: resource, k: "item" }, text);
        }
        putLine({ r: resource, k: "listend", rv: version });
      }
      restarting = undefined;
      for (const putNow of later) putNow();
      resolve();
    },
    denied(resource) {
      refused.add(resource);
      put({ r: resource, k: "denied" });
    },
    async listPage(resource: RecordedResource, query: ListQuery, signal: AbortSignal): Promise<ListPage> {
      const of = stateOf(resource);
      const page = await kube.listPage(resource, whole(query), signal).catch((error: unknown) => {
        delete of.listing;
        throw error;
      });
      await restarting?.end;
      // A list may restart before it is complete.
      if (query.continue === undefined) of.listing = { keys: new Set() };
      for (const item of page.items) {
        try {
          const shown = seen(resource, item);
          const text = textOf(shown);
          put({ r: resource, k: "item" }, text);
          const key = keyOf(shown.object);
          of.listing?.keys.add(key);
          if (keeps) of.objects.set(key, text);
        } catch {
          putUndecodable(resource, exactText(item));
        }
      }
      if (page.continue === undefined) putListEnd(resource, of, page.resourceVersion);
      await room?.();
      return page;
    },
    newestVersion: (...args) => kube.newestVersion(...args),
    async *watch(resource: RecordedResource, query: WatchQuery, signal: AbortSignal): AsyncGenerator<readonly string[]> {
      if (query.sendInitialEvents)
        throw new KubeApiError({ code: 422, reason: "Invalid", message: "a capture supports paginated lists only" });
      let how = "clean";
      try {
        for await (const group of kube.watch(resource, whole(query), signal)) {
          await restarting?.end;
          const passed = group.map((line) => putEvent(resource, lineOf(line)));
          await room?.();
          yield passed;
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

  /** Ends a list. Before a list that is not the first, records a gap: of the changes between only the result is known. */
  function putListEnd(resource: RecordedResource, of: ResourceState, version: string): void {
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
  function putUndecodable(resource: RecordedResource, text: string): void {
    put({ r: resource, k: "raw", bytes: Buffer.byteLength(text), b: raw ? Buffer.from(text).toString("base64") : undefined });
  }

  function noteEvent(of: ResourceState, type: string, object: object, text: ObjectText): void {
    of.atMs = clock.now();
    of.version = metaOf(object).resourceVersion ?? of.version ?? "0";
    if (!keeps || type === "BOOKMARK") return;
    if (type === "DELETED") of.objects.delete(keyOf(object));
    else of.objects.set(keyOf(object), text);
  }

  /** @returns the line for the consumer */
  function putEvent(resource: RecordedResource, line: string): string {
    try {
      const { type, object } = parsed(resource, line, raw) as { readonly type: string; readonly object: unknown };
      const known = type === "ADDED" || type === "MODIFIED" || type === "DELETED";
      const shown = known ? seen(resource, object) : { object: raw ? (object as object) : bare(resource, type, object) };
      const text = textOf(shown);
      put({ r: resource, type }, text);
      if (type === "ERROR") stateOf(resource).ended = reasonOf(object);
      else noteEvent(stateOf(resource), type, shown.object, text);
      const { resourceVersion } = metaOf(shown.object);
      return known && yieldsVersions ? JSON.stringify({ type, object: { metadata: { resourceVersion } } }) : line;
    } catch {
      putUndecodable(resource, line);
      return line;
    }
  }
}

/** Numbers must be exact in unredacted objects, and in the pod templates that only owners have. */
function parsed(resource: RecordedResource, line: string, raw: boolean): unknown {
  return !raw && (resource === "pods" || isEvidenceResource(resource)) ? parseRounded(line) : parseExact(line);
}

/** Times with microseconds. Many events arrive in the same millisecond. */
function timeTexts(): (atMs: number) => string {
  let [lastMs, text] = [Number.NaN, ""];
  return (atMs) => {
    if (atMs !== lastMs) [lastMs, text] = [atMs, new Date(atMs).toISOString().replace("Z", "000Z")];
    return text;
  };
}

function textOf(shown: Shown): ObjectText {
  return exactText(shown).slice(1);
}

interface Captured {
  readonly namespace?: string;
  readonly name?: string;
  readonly resourceVersion?: string;
}

/** A stripped pod is flat. */
function metaOf(object: unknown): Captured {
  return (object as { readonly metadata?: Captured }).metadata ?? (object as Captured); // the object is as captured
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
function bare(resource: RecordedResource, type: string, object: unknown): object {
  if (type !== "BOOKMARK") {
    const { kind, code, reason } = object as { readonly kind?: string; readonly code?: number; readonly reason?: string };
    return { kind, code, reason };
  }
  const { metadata } = object as { readonly metadata?: { readonly resourceVersion?: string; readonly annotations?: object } };
  return { kind: RESOURCES[resource].kind, metadata: { resourceVersion: metadata?.resourceVersion, annotations: metadata?.annotations } };
}
