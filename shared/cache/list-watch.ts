/**
 * List and watch of one resource, kept up: carries out what the Reflector decides, for everybody who follows objects (the
 * watcher's streams, the node agent's pod source, scripted nodes).
 *
 * LW1 a listener is told one thing at a time, in order, and each is awaited. An event counts as accepted once it has been taken.
 * LW2 a list is told page by page; only `listed` says that it is whole. One that ends before that is begun anew.
 * LW3 no line is skipped: what cannot be decoded drops the connection, which resumes before it.
 * LW4 what `list` and `listed` throw ends the loop; every other failure is the Reflector's to answer.
 *
 * Source: client-go tools/cache/reflector.go ListAndWatch.
 */
import type { CachedResource, Resource } from "../api/resources.ts";
import { compareResourceVersions, isResourceVersion } from "../api/resource-version.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Clock } from "../ports/clock.ts";
import type { KubeWatch, ListQuery } from "../ports/kube.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import { startReflector, stepReflector } from "./reflector.ts";
import type { ReflectorInput, ReflectorState, ReflectorStep } from "./reflector.ts";
import { parseWatchLine } from "./watch-line.ts";

export interface ListWatchOptions<R extends Resource> {
  readonly kube: KubeWatch<R>;
  readonly resource: R;
  readonly fieldSelector?: string;
  /** The version up to which everything is known already; absent = list first. */
  readonly resumeFrom?: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
  /** Absent: nobody hears of it. */
  readonly log?: Log;
}

/** Hears what the API server has. */
export interface Listener {
  /** A list is about to begin. */
  list(): Listing | Promise<Listing>;
  change(type: "A" | "M" | "D", object: unknown, rv: string): void | Promise<void>;
  bookmark?(rv: string): void;
  /** What arrived together has been told, also when the last of it dropped the connection. */
  told?(): void;
  /** Awaited after each page and each group of lines: no more is read meanwhile. */
  room?(signal: AbortSignal): Promise<void>;
}

/** One attempt at a list. */
export interface Listing {
  /** What is listed is asked to be no older than this. */
  readonly floor?: string;
  /** Before the first page. */
  begin?(): Promise<void>;
  /** `rv` is the version of the whole list. */
  page(items: readonly unknown[], rv: string): void | Promise<void>;
  /** That was all: what was not in it is gone. */
  listed(rv: string): void;
}

const PAGE_SIZE = 500;
const WATCH_SECONDS_MIN = 300;

export class ListWatch<R extends Resource = CachedResource> {
  readonly #options: ListWatchOptions<R>;
  readonly #listener: Listener;
  #state: ReflectorState;
  #step: ReflectorStep;
  #request = new AbortController();
  #relist: string | undefined;

  constructor(options: ListWatchOptions<R>, listener: Listener) {
    this.#options = options;
    this.#listener = listener;
    [this.#state, this.#step] = startReflector(options.resumeFrom);
  }

  /** Ends the current request and lists again. */
  relist(why: string): void {
    this.#relist = why;
    this.#request.abort(new Error(why));
  }

  /** Runs until `signal` aborts. @throws what the listener's `list` and `listed` throw */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, resource } = this.#options;
    while (!signal.aborted) {
      if (this.#relist !== undefined) {
        this.#step = { do: "list", ...(this.#state.rv !== undefined && { rv: this.#state.rv }), afterMs: 0, why: this.#relist };
        this.#relist = undefined;
      }
      const step = this.#step;
      if (step.do === "continue") throw new Error("a request ended without saying how");
      log?.debug(step.do === "list" ? "listing" : "watching", { resource, why: step.why, rv: step.rv, afterMs: step.afterMs });
      if (step.afterMs > 0) await clock.after(step.afterMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      if (this.#relist !== undefined) continue; // asked for while we waited
      this.#request = new AbortController();
      const request = AbortSignal.any([signal, this.#request.signal]);
      await (step.do === "list" ? this.#list(step.rv, request) : this.#watch(step.rv, request));
    }
  }

  #next(input: ReflectorInput): ReflectorStep {
    [this.#state, this.#step] = stepReflector(this.#state, input, this.#options.clock.now(), this.#options.random.next());
    return this.#step;
  }

  async #list(rv: string | undefined, signal: AbortSignal): Promise<void> {
    const listing = await this.#listener.list();
    let listRV: string;
    try {
      listRV = await this.#pages(listing, rv, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#options.log?.warn("list failed", { resource: this.#options.resource, error: describeError(error) });
      this.#next({ kind: "listFailed", error });
      return;
    }
    if (signal.aborted) return;
    listing.listed(listRV);
    this.#next({ kind: "listed", rv: listRV });
  }

  /** @returns the version of the list */
  async #pages(listing: Listing, rv: string | undefined, signal: AbortSignal): Promise<string> {
    const { kube, resource } = this.#options;
    await listing.begin?.();
    let page = await kube.listPage(resource, this.#listQuery(noOlder(rv, listing.floor)), signal);
    const { resourceVersion } = page;
    for (;;) {
      await listing.page(page.items, resourceVersion);
      await this.#listener.room?.(signal);
      if (page.continue === undefined) return resourceVersion;
      page = await kube.listPage(resource, { ...this.#listQuery(undefined), continue: page.continue }, signal);
    }
  }

  #listQuery(rv: string | undefined): ListQuery {
    const from = rv === undefined ? {} : ({ resourceVersion: rv, resourceVersionMatch: "NotOlderThan" } as const);
    return { ...this.#selector(), limit: PAGE_SIZE, ...from };
  }

  #selector(): Pick<ListQuery, "fieldSelector"> {
    const { fieldSelector } = this.#options;
    return fieldSelector === undefined ? {} : { fieldSelector };
  }

  async #watch(rv: string, signal: AbortSignal): Promise<void> {
    const { clock, kube, random, resource, log } = this.#options;
    const timeoutSeconds = WATCH_SECONDS_MIN + Math.floor(random.next() * (WATCH_SECONDS_MIN + 1));
    const query = { ...this.#selector(), resourceVersion: rv, allowWatchBookmarks: true, timeoutSeconds };
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
      if (!signal.aborted) this.#next({ kind: "closed", clean: true, events, openMs: clock.now() - openedMs });
    } catch (error) {
      if (signal.aborted) return;
      log?.info("watch ended", { resource, error: describeError(error) });
      this.#next(
        opened ? { kind: "closed", clean: false, events, openMs: clock.now() - openedMs } : { kind: "refused", error, inStream: false },
      );
    }
  }

  /** @returns whether the watch goes on; if not, the connection is dropped */
  async #lines(lines: readonly string[]): Promise<boolean> {
    try {
      for (const line of lines) if ((await this.#line(line)) !== "continue") return false;
      return true;
    } finally {
      this.#listener.told?.();
    }
  }

  async #line(text: string): Promise<ReflectorStep["do"]> {
    const { log, resource } = this.#options;
    const line = parseWatchLine(text);
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
        log?.info("watch refused in the stream", { resource, error: describeError(line.error) });
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
}

function noOlder(rv: string | undefined, floor: string | undefined): string | undefined {
  return rv !== undefined && floor !== undefined && compareResourceVersions(rv, floor) < 0 ? floor : rv;
}
