/**
 * One resource's stream from the API server to a sink: carries out what the Reflector decides. It keeps nothing per object
 * outside a list; while listing, it keeps key, uid and version of each (the manifest).
 */
import type { Cached } from "../api/cached.ts";
import type { Digester } from "../api/digest.ts";
import { objectKey } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import { compareResourceVersions, isResourceVersion } from "../api/resource-version.ts";
import { strip } from "../api/strip.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Clock } from "../ports/clock.ts";
import type { KubeWatch, ListQuery } from "../ports/kube.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ListedRows } from "./listed-rows.ts";
import type { CachedVersions } from "./listed-rows.ts";
import { startReflector, stepReflector } from "./reflector.ts";
import type { ReflectorInput, ReflectorState, ReflectorStep } from "./reflector.ts";
import { parseWatchLine } from "./watch-line.ts";

export interface ResourceStreamPorts {
  readonly kube: KubeWatch;
  readonly sink: DeltaSink;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly log: Log;
  /** Starts a generation in the Store; its `floor` is the greatest watermark. Rejects when the leader has lost its place. */
  readonly openGeneration: () => Promise<{ readonly generation: number; readonly floor: string }>;
  /** What is cached already: listed again, but without payload. */
  readonly cachedVersions?: () => Promise<CachedVersions>;
  readonly quarantine: (what: string, where: string, why: string) => Promise<void>;
}

/** The server's history went back: etcd restored, or another cluster. The cache of this epoch can only be left. */
export class HistoryRegressedError extends Error {
  override readonly name = "HistoryRegressedError";
}

const PAGE_SIZE = 500;
const WATCH_SECONDS_MIN = 300;

export class ResourceStream {
  readonly #ports: ResourceStreamPorts;
  readonly #resource: CachedResource;
  #state: ReflectorState;
  #step: ReflectorStep;
  #request = new AbortController();
  #relist: string | undefined;

  /** `resumeFrom`: the version up to which the cache is known to be whole; absent = list first. */
  constructor(ports: ResourceStreamPorts, resource: CachedResource, resumeFrom: string | undefined) {
    this.#ports = ports;
    this.#resource = resource;
    [this.#state, this.#step] = startReflector(resumeFrom);
  }

  /** Ends the current request and lists again: a lane is frozen or a payload was lost. */
  relist(why: string): void {
    this.#relist = why;
    this.#request.abort(new Error(why));
  }

  /** Runs until `signal` aborts. @throws {HistoryRegressedError}, and what `openGeneration` throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    while (!signal.aborted) {
      if (this.#relist !== undefined) {
        this.#step = { do: "list", ...(this.#state.rv !== undefined && { rv: this.#state.rv }), afterMs: 0, why: this.#relist };
        this.#relist = undefined;
      }
      const step = this.#step;
      if (step.do === "continue") throw new Error("a request ended without saying how");
      log.debug(step.do === "list" ? "listing" : "watching", {
        resource: this.#resource,
        why: step.why,
        rv: step.rv,
        afterMs: step.afterMs,
      });
      if (step.afterMs > 0 && !(await waited(clock.after(step.afterMs, signal)))) return;
      if (this.#relist !== undefined) continue; // asked for while we waited
      this.#request = new AbortController();
      const request = AbortSignal.any([signal, this.#request.signal]);
      await (step.do === "list" ? this.#list(step.rv, request) : this.#watch(step.rv, request));
    }
  }

  #next(input: ReflectorInput): ReflectorStep {
    [this.#state, this.#step] = stepReflector(this.#state, input, this.#ports.clock.now(), this.#ports.random.next());
    return this.#step;
  }

  async #list(rv: string | undefined, signal: AbortSignal): Promise<void> {
    const { generation, floor } = await this.#ports.openGeneration();
    try {
      const cached = await this.#ports.cachedVersions?.();
      const from = rv === undefined ? undefined : compareResourceVersions(rv, floor) >= 0 ? rv : floor;
      const rows = new ListedRows();
      let listRV = "";
      for (let next: string | undefined, first = true; first || next !== undefined; first = false) {
        const page = await this.#ports.kube.listPage(this.#resource, queryOf(from, next), signal);
        if (first) listRV = page.resourceVersion;
        for (const item of page.items) {
          const listed = await this.#read("A", item, "list");
          if (!listed) continue;
          rows.add(listed);
          if (cached?.has(listed.key, listed.uid, listed.rv) !== true) this.#ports.sink.listed(listed, listRV, generation);
        }
        await this.#ports.sink.room(signal);
        next = page.continue;
      }
      if (compareResourceVersions(listRV, floor) < 0)
        throw new HistoryRegressedError(`${this.#resource} listed at ${listRV}, applied already: ${floor}`);
      if (signal.aborted) return;
      this.#ports.sink.manifest(listRV, rows, generation);
      this.#next({ kind: "listed", rv: listRV });
    } catch (error) {
      if (error instanceof HistoryRegressedError) throw error;
      if (signal.aborted) return;
      this.#ports.log.warn("list failed", { resource: this.#resource, error: describeError(error) });
      this.#next({ kind: "listFailed", error });
    }
  }

  async #watch(rv: string, signal: AbortSignal): Promise<void> {
    const { clock, kube, random, log } = this.#ports;
    const timeoutSeconds = WATCH_SECONDS_MIN + Math.floor(random.next() * (WATCH_SECONDS_MIN + 1));
    const openedMs = clock.now();
    let events = 0;
    let opened = false;
    try {
      for await (const lines of kube.watch(this.#resource, { resourceVersion: rv, allowWatchBookmarks: true, timeoutSeconds }, signal)) {
        opened = true;
        for (const line of lines) {
          if ((await this.#line(line)) !== "continue") return;
          events++;
        }
        await this.#ports.sink.room(signal);
        if (signal.aborted) return;
      }
      if (!signal.aborted) this.#next({ kind: "closed", clean: true, events, openMs: clock.now() - openedMs });
    } catch (error) {
      if (signal.aborted) return;
      log.info("watch ended", { resource: this.#resource, error: describeError(error) });
      this.#next(
        opened ? { kind: "closed", clean: false, events, openMs: clock.now() - openedMs } : { kind: "refused", error, inStream: false },
      );
    }
  }

  /** `continue`, or another step to take: then the connection is dropped. */
  async #line(text: string): Promise<ReflectorStep["do"]> {
    const line = parseWatchLine(text);
    switch (line.kind) {
      case "change": {
        if (line.rv === undefined || !isResourceVersion(line.rv)) return this.#undecodable("an event without a decimal resourceVersion");
        const item = await this.#read(line.type, line.object, `watch at ${line.rv}`);
        if (item) this.#ports.sink.live(item);
        return this.#next({ kind: "accepted", rv: line.rv }).do;
      }
      case "bookmark":
        if (line.rv === undefined || !isResourceVersion(line.rv)) return "continue";
        this.#ports.sink.watermark(line.rv);
        return this.#next({ kind: "accepted", rv: line.rv }).do;
      case "error":
        this.#ports.log.info("watch refused in the stream", {
          resource: this.#resource,
          error: describeError(line.error),
        });
        return this.#next({ kind: "refused", error: line.error, inStream: true }).do;
      case "undecodable":
        return this.#undecodable(line.why);
    }
  }

  #undecodable(why: string): ReflectorStep["do"] {
    this.#ports.log.error("watch line cannot be decoded, the stream resumes before it", {
      resource: this.#resource,
      rv: this.#state.rv,
      why,
    });
    return this.#next({ kind: "undecodable" }).do;
  }

  /** An object that cannot be stripped is named and set aside; its neighbours go on. */
  async #read(type: SinkItem["type"], object: unknown, where: string): Promise<SinkItem | undefined> {
    try {
      const stripped = strip(this.#resource, object, this.#ports.digester);
      return { type, ...identityOf(stripped), object: stripped };
    } catch (error) {
      const name = (object as { readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown } } | null)?.metadata;
      await this.#ports.quarantine(
        `${this.#resource} ${String(name?.namespace)}/${String(name?.name)}`,
        where,
        error instanceof Error ? error.message : String(error),
      );
      return undefined;
    }
  }
}

function queryOf(rv: string | undefined, next: string | undefined): ListQuery {
  if (next !== undefined) return { limit: PAGE_SIZE, continue: next };
  return { limit: PAGE_SIZE, ...(rv !== undefined && { resourceVersion: rv, resourceVersionMatch: "NotOlderThan" as const }) };
}

function identityOf(object: Cached): Pick<SinkItem, "key" | "uid" | "rv"> {
  const { namespace, name, uid, resourceVersion } = "metadata" in object ? object.metadata : object;
  return { key: objectKey(namespace, name), uid, rv: resourceVersion };
}

async function waited(wait: Promise<void>): Promise<boolean> {
  return wait.then(
    () => true,
    () => false,
  );
}
