/**
 * ListWatch of one resource: executes the Reflector's decisions for every consumer (the watcher's streams, the node agent's pod source,
 * scripted nodes).
 *
 * LW1 a listener receives one call at a time, in order, and each is awaited. An event counts as accepted once its call has returned.
 * LW2 a list is delivered page by page and is complete only with `listed`. A list that ends earlier is restarted.
 * LW3 no line is skipped: an undecodable line drops the connection, which resumes before it, or ends the list.
 * LW4 errors of `list` and `listed` end the loop, as does a list below the floor; the Reflector handles all other failures.
 * LW5 the objects of a WatchList are delivered as pages when they arrive, unbuffered. The server's newest version is requested first and is
 *     the list's minimum version, so that the listener knows it before the first object.
 * LW6 with `fields`, lists and watches are requested as protobuf, lists by pages (RF5). After protobuf that cannot be decoded, only JSON is requested.
 *
 * Source: client-go tools/cache/reflector.go ListAndWatch, watchList.
 */
import type { CachedResource, Resource } from "../objects/resources.ts";
import { compareResourceVersions, isResourceVersion } from "../objects/resource-version.ts";
import { describeError } from "../client/describe-error.ts";
import type { Clock, Log, Random } from "@deltaloop/base";
import { isForbidden, isInvalid, isUnauthorized, UnansweredError } from "../client/errors.ts";
import type { KubeWatch, ListPage, ListQuery, WatchFrame } from "../client/kube.ts";
import { MalformedProtobufError } from "../protobuf/decode.ts";
import type { Fields } from "../protobuf/fields.ts";
import { METRICS } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";
import { createPager } from "../client/page-size.ts";
import { startReflector, stepReflector } from "./reflector.ts";
import type { ListStep, ReflectorInput, ReflectorState, ReflectorStep } from "./reflector.ts";
import { parseWatchLine } from "./watch-line.ts";
import type { WatchLine } from "./watch-line.ts";

export interface ListWatchOptions<R extends Resource> {
  readonly kube: KubeWatch<R>;
  readonly resource: R;
  readonly fieldSelector?: string;
  /** The fields that the listener reads, so that the server may send protobuf (KL9). */
  readonly fields?: Fields | undefined;
  /** The version from which the watch resumes; absent if a list must come first. */
  readonly resumeFrom?: string | undefined;
  /** The greatest version up to which any part of the cache is complete. */
  readonly known?: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
  /** If absent, nothing is logged. */
  readonly log?: Log;
  readonly metrics?: Metrics | undefined;
}

/** Receives the API server's state. */
export interface Listener {
  /** Called before a list begins. */
  list(): Listing | Promise<Listing>;
  change(type: "A" | "M" | "D", object: unknown, rv: string): void | Promise<void>;
  bookmark?(rv: string): void;
  /** Called after the lines of one read are delivered, even if the last line caused the connection to be dropped. */
  batchDone?(): void;
  /** Awaited after each page and group of lines: backpressure. */
  room?(signal: AbortSignal): Promise<void>;
}

/** One attempt at a list. */
export interface Listing {
  /** Minimum version of the list. */
  readonly floor?: string;
  /** Called before the first page. */
  begin?(): Promise<void>;
  /** `rv` is the minimum version of a streamed list, and the version of a paged list. */
  page(items: readonly unknown[], rv: string): void | Promise<void>;
  /** Delivers a change of an object before its streamed list is complete. */
  change(type: "M" | "D", object: unknown, rv: string): void | Promise<void>;
  /** Reports that the list is complete as of `rv`; objects that were not listed do not exist. */
  listed(rv: string): void;
}

/** The server's history regressed: etcd was restored, or this is another cluster. The cache cannot be continued. */
export class HistoryRegressedError extends Error {
  override readonly name = "HistoryRegressedError";
}

/** State of an incomplete WatchList. It is dropped once the list is complete, because the connection then continues for minutes. */
interface Streaming {
  readonly notOlderThan: string;
  /** Whether any object has been delivered. */
  begun: boolean;
}

const LIST_REASONS = METRICS.deltaloop_lists_total.labels.reason;
const WATCH_REASONS = METRICS.deltaloop_watches_total.labels.reason;
const WATCH_SECONDS_MIN = 300;

export class ListWatch<R extends Resource = CachedResource> {
  readonly #options: ListWatchOptions<R>;
  readonly #listener: Listener;
  #state: ReflectorState;
  #step: ReflectorStep;
  #request = new AbortController();
  #relist: string | undefined;
  #listing: Listing | undefined;
  /** Set while the stream sends the initial events of a WatchList. */
  #streaming: Streaming | undefined;
  /** Absent: JSON is requested (LW6). */
  #fields: Fields | undefined;
  /** The error that ends the loop (LW4). */
  #fatal: { readonly error: unknown } | undefined;

  constructor(options: ListWatchOptions<R>, listener: Listener) {
    this.#options = options;
    this.#fields = options.fields;
    this.#listener = listener;
    [this.#state, this.#step] = startReflector(options.resumeFrom, options.known, options.fields !== undefined);
  }

  /** Ends the current request and lists again. */
  relist(why: string): void {
    this.#relist = why;
    this.#request.abort(new Error(why));
  }

  /** Runs until `signal` aborts. @throws what the listener's `list` and `listed` throw; {HistoryRegressedError} */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, resource } = this.#options;
    while (!signal.aborted) {
      if (this.#relist !== undefined) this.#next({ kind: "relist", why: this.#relist });
      this.#relist = undefined;
      const step = this.#step;
      if (step.do === "continue") throw new Error("a request ended without an input for the Reflector");
      log?.debug(step.do === "list" ? "listing" : "watching", { resource, why: step.why, rv: step.rv, afterMs: step.afterMs });
      if (step.afterMs > 0) await clock.after(step.afterMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      if (this.#relist !== undefined) continue; // a list was requested during the wait
      this.#request = new AbortController();
      this.#count(step);
      const request = AbortSignal.any([signal, this.#request.signal]);
      await (step.do === "list" ? this.#list(step, request) : this.#resume(step.rv, step.probe, request));
      if (this.#fatal) throw this.#fatal.error;
    }
  }

  #count(step: Exclude<ReflectorStep, { readonly do: "continue" }>): void {
    const { metrics, resource } = this.#options;
    if (step.do === "list") metrics?.count("deltaloop_lists_total", { resource, reason: reasonOf(LIST_REASONS, step.why) ?? "asked for" });
    const reason = reasonOf(WATCH_REASONS, step.why);
    if (step.do === "watch" && reason !== undefined) metrics?.count("deltaloop_watches_total", { resource, reason });
  }

  #next(input: ReflectorInput): ReflectorStep {
    [this.#state, this.#step] = stepReflector(this.#state, input, this.#options.clock.now(), this.#options.random.next());
    return this.#step;
  }

  async #list({ by, rv }: ListStep, signal: AbortSignal): Promise<void> {
    this.#listing = await this.#listener.list();
    try {
      await this.#listing.begin?.();
      if (by === "pages" || (await this.#watchList(signal))) await this.#listPages(rv, signal);
    } catch (error) {
      if (signal.aborted || this.#fatal) return;
      if (error instanceof Error && error.cause instanceof MalformedProtobufError) this.#fields = undefined;
      this.#failed("warn", "list failed", error);
      this.#next({ kind: "listFailed", error });
    }
  }

  async #listPages(rv: string | undefined, signal: AbortSignal): Promise<void> {
    const listing = this.#listing;
    if (!listing) return;
    const listRV = await this.#pages(listing, rv, signal);
    if (!signal.aborted) this.#listed(listRV);
  }

  /** @returns the version of the list */
  async #pages(listing: Listing, rv: string | undefined, signal: AbortSignal): Promise<string> {
    const { kube, resource } = this.#options;
    const pager = createPager();
    const ask = (query: ListQuery): Promise<ListPage> =>
      pager((limit) => kube.listPage(resource, { ...this.#selector(), ...this.#projected(), limit, ...query }, signal));
    let page = await ask(asOf(noOlder(rv, listing.floor)));
    const { resourceVersion } = page;
    this.#checkFloor(resourceVersion);
    for (;;) {
      await listing.page(page.items, resourceVersion);
      await this.#listener.room?.(signal);
      if (page.continue === undefined) return resourceVersion;
      page = await ask({ continue: page.continue });
    }
  }

  #projected(): Pick<ListQuery, "fields"> {
    return this.#fields === undefined ? {} : { fields: this.#fields };
  }

  #selector(): Pick<ListQuery, "fieldSelector"> {
    const { fieldSelector } = this.#options;
    return fieldSelector === undefined ? {} : { fieldSelector };
  }

  /** @returns whether to read the list by pages now, because the server does not stream it */
  async #watchList(signal: AbortSignal): Promise<boolean> {
    const { kube, resource } = this.#options;
    let notOlderThan: string;
    try {
      notOlderThan = await kube.newestVersion(resource, this.#selector(), signal);
      this.#checkFloor(notOlderThan);
    } catch (error) {
      if (signal.aborted || this.#fatal) return false;
      this.#failed("warn", "list failed", error);
      return isPagesNow(this.#next({ kind: "watchListFailed", error, begun: false }));
    }
    const streaming: Streaming = { notOlderThan, begun: false };
    this.#streaming = streaming;
    await this.#watch(notOlderThan, signal);
    this.#streaming = undefined;
    return !signal.aborted && !streaming.begun && isPagesNow(this.#step);
  }

  /** Resumes from `rv` unless the server's history regressed (RF6). */
  async #resume(rv: string, probe: boolean, signal: AbortSignal): Promise<void> {
    if (probe && !(await this.#probe(rv, signal))) return;
    await this.#watch(rv, signal);
  }

  /** @returns whether the watch may be resumed */
  async #probe(rv: string, signal: AbortSignal): Promise<boolean> {
    const { kube, log, resource } = this.#options;
    try {
      const newest = await kube.newestVersion(resource, this.#selector(), signal);
      if (signal.aborted) return false;
      if (this.#next({ kind: "probed", rv: newest }).do === "continue") return true;
      log?.error("the API server was restored to an older revision", { resource, rv, newest });
    } catch (error) {
      if (signal.aborted) return false;
      this.#failed("info", "watch ended", error);
      this.#next({ kind: "refused", error, inStream: false });
    }
    return false;
  }

  async #watch(rv: string, signal: AbortSignal): Promise<void> {
    const { clock, kube, random, resource } = this.#options;
    const timeoutSeconds = WATCH_SECONDS_MIN + Math.floor(random.next() * (WATCH_SECONDS_MIN + 1));
    const initial = this.#streaming && ({ sendInitialEvents: true, resourceVersionMatch: "NotOlderThan" } as const);
    const query = { ...this.#selector(), ...this.#projected(), resourceVersion: rv, ...initial, allowWatchBookmarks: true, timeoutSeconds };
    const openedMs = clock.now();
    let events = 0;
    let opened = false;
    try {
      for await (const lines of kube.watch(resource, query, signal)) {
        if (signal.aborted) return;
        opened = true;
        events += lines.length;
        if (!(await this.#lines(lines))) return;
        await this.#listener.room?.(signal);
        if (signal.aborted) return;
      }
      if (signal.aborted) return;
      if (!this.#broken()) this.#next({ kind: "closed", clean: true, events, openMs: clock.now() - openedMs });
    } catch (error) {
      if (signal.aborted || this.#fatal) return;
      // A server without WatchList, or a capture, rejects a WatchList with this error; the list is then read by pages.
      this.#failed(this.#streaming && isInvalid(error) ? "debug" : "info", "watch ended", error);
      if (this.#broken(error)) return;
      this.#next(
        opened ? { kind: "closed", clean: false, events, openMs: clock.now() - openedMs } : { kind: "refused", error, inStream: false },
      );
    }
  }

  /** Reports to the Reflector that the stream ended within a list. */
  #broken(error?: unknown): boolean {
    if (!this.#streaming) return false;
    this.#next({ kind: "watchListFailed", error, begun: this.#streaming.begun });
    return true;
  }

  /** @returns whether the watch continues; otherwise the connection is dropped */
  async #lines(lines: readonly WatchFrame[]): Promise<boolean> {
    try {
      for (const text of lines) {
        const line = parseWatchLine(text, this.#fields);
        if (line.kind === "undecodable" && typeof text !== "string") this.#fields = undefined;
        if (this.#streaming ? !(await this.#initialLine(line, this.#streaming)) : (await this.#line(line)) !== "continue") return false;
      }
      return true;
    } finally {
      this.#listener.batchDone?.();
    }
  }

  /** @returns whether the watch continues */
  async #initialLine(line: WatchLine, streaming: Streaming): Promise<boolean> {
    const { notOlderThan } = streaming;
    const listing = this.#listing;
    if (!listing) throw new Error("initial watch event without a list in progress");
    switch (line.kind) {
      case "change":
        streaming.begun = true;
        if (line.type === "A") await listing.page([line.object], notOlderThan);
        else await listing.change(line.type, line.object, notOlderThan);
        return true;
      case "bookmark":
        if (!line.endsInitialEvents) return true;
        if (line.rv === undefined || !isResourceVersion(line.rv)) throw new UnansweredError("a list without a decimal resourceVersion");
        this.#listed(line.rv);
        this.#streaming = undefined;
        return true;
      case "error":
        throw line.error;
      case "undecodable":
        throw new UnansweredError(`a line of the list cannot be decoded: ${line.why}`);
    }
  }

  async #line(line: WatchLine): Promise<ReflectorStep["do"]> {
    switch (line.kind) {
      case "change":
        if (line.rv === undefined || !isResourceVersion(line.rv)) return this.#undecodable("an event without a decimal resourceVersion");
        await this.#listener.change(line.type, line.object, line.rv);
        return this.#next({ kind: "accepted", rv: line.rv }).do;
      case "bookmark":
        if (line.rv === undefined || !isResourceVersion(line.rv)) return "continue";
        this.#listener.bookmark?.(line.rv);
        return this.#next({ kind: "accepted", rv: line.rv }).do;
      case "error":
        this.#failed("info", "watch refused in the stream", line.error);
        return this.#next({ kind: "refused", error: line.error, inStream: true }).do;
      case "undecodable":
        return this.#undecodable(line.why);
    }
  }

  #undecodable(why: string): ReflectorStep["do"] {
    const { log, resource } = this.#options;
    log?.error("watch line cannot be decoded, the stream resumes before it", { resource, rv: this.#state.rv, why });
    return this.#next({ kind: "undecodable" }).do;
  }

  #listed(rv: string): void {
    this.#checkFloor(rv);
    try {
      this.#listing?.listed(rv);
    } catch (error) {
      this.#fatal = { error };
      throw error;
    }
    this.#listing = undefined;
    this.#next({ kind: "listed", rv });
  }

  #checkFloor(rv: string): void {
    const floor = this.#listing?.floor;
    if (floor === undefined || compareResourceVersions(rv, floor) >= 0) return;
    const error = new HistoryRegressedError(
      `the list of ${this.#options.resource} has resourceVersion ${rv}, older than ${floor}, which is already applied`,
    );
    this.#fatal = { error };
    throw error;
  }

  /** Logs a failure. After 401 or 403 the client can only retry, so this is an error for the operator. */
  #failed(level: "debug" | "info" | "warn", what: string, error: unknown): void {
    const { log, resource } = this.#options;
    if (isUnauthorized(error) || isForbidden(error))
      log?.error("the API server denies access", { resource, what, error: describeError(error) });
    else log?.[level](what, { resource, error: describeError(error) });
  }
}

/**
 * Returns the reason as a label value, which is `why` if the metric has this value, because callers of `relist` may pass any text (MT1).
 */
function reasonOf<V extends string>(reasons: readonly V[], why: string): V | undefined {
  return reasons.find((reason) => reason === why);
}

function isPagesNow(step: ReflectorStep): boolean {
  return step.do === "list" && step.by === "pages" && step.afterMs === 0;
}

function asOf(rv: string | undefined): ListQuery {
  return rv === undefined ? {} : { resourceVersion: rv, resourceVersionMatch: "NotOlderThan" };
}

function noOlder(rv: string | undefined, floor: string | undefined): string | undefined {
  return rv !== undefined && floor !== undefined && compareResourceVersions(rv, floor) < 0 ? floor : rv;
}
