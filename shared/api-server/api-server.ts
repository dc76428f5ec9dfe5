/**
 * The in-memory API server: one `request` function in front of storage, registry and watches. Time and randomness are injected and it does
 * no I/O, so it runs in a simulation; `http.ts` serves it on a port.
 *
 *     const server = createApiServer({ clock, random });
 *     await server.request({ method: "POST", path: "/apis/apps/v1/namespaces/default/deployments", body: deployment });
 */
import type { Clock, Random } from "@deltaloop/base";
import { deletedStatus, listAnswer } from "./rest/answers.ts";
import { applyConfiguration, checkPatchOptions, isApply } from "./rest/apply.ts";
import { ApiError, badRequest, methodNotAllowed, noSuchPath, tooLargeResourceVersion, tooOldResourceVersion } from "./scheme/api-error.ts";
import { definitionWarnings } from "./custom/rules.ts";
import { deleteOptionsOf } from "./rest/delete-options.ts";
import { serveMeta } from "./kubectl/discovery.ts";
import { GarbageCollector } from "./controllers/garbage-collection.ts";
import { managerOf } from "./registry/field-managers.ts";
import { generateUid, timestamp } from "./registry/generate-name.ts";
import { clone, isObject, type JsonObject, metaOf, nameOf } from "@deltaloop/base";
import { checkListOptions, listObjects, parseResourceVersion } from "./rest/list.ts";
import { runCustomResources } from "./controllers/custom-resources.ts";
import { runNamespaceController } from "./controllers/namespace-controller.ts";
import { patcherFor } from "./rest/patch.ts";
import { Registry } from "./registry/registry.ts";
import { BINDING, decodedBody, decodedPatch, SCALE } from "./rest/decode-body.ts";
import { fieldValidationOf, IGNORE } from "./rest/field-validation.ts";
import { bodyOf, optionalBodyOf, parsed } from "./rest/request-body.ts";
import {
  type ApiRequest,
  checkAccepted,
  isGroupServed,
  isTrue,
  parseResourcePath,
  queryOf,
  type ResourcePath,
  type Verb,
  verbOf,
} from "./rest/request-info.ts";
import { type RequestRecord, requestRecord } from "./rest/request-record.ts";
import type { ResourceDefinition } from "./scheme/resource-definitions.ts";
import { scaleOf } from "./rest/scale.ts";
import { selectorOf } from "./storage/selectors.ts";
import { isReview, review } from "./rest/self-review.ts";
import { Storage } from "./storage/storage.ts";
import { bindPod, updateScale } from "./rest/subresources.ts";
import { warningHeader } from "./rest/warnings.ts";
import { metadataOf, wantsMetadata } from "./rest/partial-metadata.ts";
import { tableOf, wantsTable } from "./kubectl/table.ts";
import { openWatch, type WatchEvent, type WatchStream } from "./rest/watch.ts";

export interface ApiServerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Events of one resource kept for watches and lists. */
  readonly historyEvents?: number;
  /** A watcher that lags by more events is dropped. */
  readonly watchBufferEvents?: number;
  readonly garbageCollection?: boolean;
  /** Managed fields from the creation of an object on, as upstream. Default: from its first server-side apply on, which costs less. */
  readonly managedFields?: boolean;
  /** The resourceVersion before the first write. A value above 2^53 reveals code that treats resourceVersions as numbers. */
  readonly firstRevision?: bigint;
  /** Whether stored objects are frozen. Default true. */
  readonly freezes?: boolean;
  /** The initial objects, by resource (`deployments.apps`), with their versions. Default: those of a new cluster. */
  readonly objects?: Iterable<readonly [resource: string, object: JsonObject]>;
}

export type { RequestRecord } from "./rest/request-record.ts";

interface ObjectResponse {
  readonly kind: "object";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonObject;
}

export type ApiResponse =
  | ObjectResponse
  | { readonly kind: "text"; readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: string }
  | { readonly kind: "watch"; readonly status: 200; readonly headers: Readonly<Record<string, string>>; readonly stream: WatchStream };

/** The state while one request is served. */
interface Serving {
  readonly query: (name: string) => string | undefined;
  readonly warn: (text: string) => void;
}

/** Kinds of the options of a write. */
const OPTIONS: Readonly<Partial<Record<Verb, string>>> = { create: "CreateOptions", update: "UpdateOptions", patch: "PatchOptions" };

const DEFAULT_HISTORY_EVENTS = 50_000;
const DEFAULT_WATCH_BUFFER_EVENTS = 100_000;
/** Delay of the server's own controllers (garbage collection, namespaces). */
const CONTROLLER_DELAY_MS = 20;
/** Upstream chooses a random one between 30 and 60 minutes. */
const DEFAULT_WATCH_TIMEOUT_MS = 30 * 60_000;
/** How long a read waits for a future resourceVersion. Source: storage/cacher (blockTimeout). */
const FRESHNESS_WAIT_MS = 3_000;

export class ApiServer {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #storage: Storage;
  readonly #registry: Registry;
  readonly #watchBufferEvents: number;
  readonly #listeners = new Set<(record: RequestRecord) => void>();
  readonly #watches = new Set<{ readonly resource: string; readonly stream: WatchStream }>();
  readonly #closed = new AbortController();
  readonly #readDefinitions: () => void;
  readonly #collector: GarbageCollector | undefined;

  constructor(options: ApiServerOptions) {
    this.#clock = options.clock;
    this.#random = options.random;
    this.#watchBufferEvents = options.watchBufferEvents ?? DEFAULT_WATCH_BUFFER_EVENTS;
    this.#storage = new Storage({
      historyEvents: options.historyEvents ?? DEFAULT_HISTORY_EVENTS,
      firstRevision: options.firstRevision ?? 1n,
      freezes: options.freezes !== false,
    });
    this.#registry = new Registry(this.#storage, this.#clock, this.#random, options.managedFields);
    const background = { delayMs: CONTROLLER_DELAY_MS, signal: this.#closed.signal };
    if (options.garbageCollection !== false) this.#collector = new GarbageCollector(this.#storage, this.#registry, this.#clock, background);
    if (options.objects) for (const [resource, object] of options.objects) this.#storage.load(resource, object);
    else this.#bootstrap();
    this.#readDefinitions = runCustomResources(this.#storage, this.#registry, this.#clock, {
      ...background,
      onRemoved: (id) => this.closeWatches(id),
    });
    runNamespaceController(this.#storage, this.#registry, this.#clock, background);
    if (options.objects) this.#collector?.relist();
  }

  /** The resourceVersion of the last write. */
  get resourceVersion(): string {
    return String(this.#storage.revision);
  }

  /** Calls `listener` for every answered resource request. @returns a function that unsubscribes */
  onRequest(listener: (record: RequestRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Never rejects: errors are returned as a Status. */
  async request(request: ApiRequest): Promise<ApiResponse> {
    try {
      const path = parseResourcePath(this.#registry.resources, request.path);
      if (path === undefined) return this.#serveOther(request);
      return await this.#serveResource(request, path);
    } catch (error) {
      if (error instanceof ApiError) return answer(error.code, error.status);
      return answer(500, new ApiError(500, "InternalError", `Internal error occurred: ${String(error)}`).status);
    }
  }

  /** Returns the stored object without a request, for tests and the demo. */
  peek(resource: string, namespace: string, name: string): JsonObject | undefined {
    return this.#storage.get(resource, namespace, name);
  }

  /** Stores an object of `deployments.apps` with its uid and other server-set fields; only its version is new. */
  place(resource: string, object: JsonObject): JsonObject {
    return this.#storage.put(resource, clone(object));
  }

  /** Drops all history: older watches and continue tokens get 410. */
  compact(): void {
    this.#storage.compact();
  }

  /** @returns a function that restores this state: resourceVersions continue from here, and watches end as after a restart */
  backup(): () => void {
    const restore = this.#storage.backup();
    return () => {
      restore();
      this.#readDefinitions();
      this.#collector?.relist();
      this.closeWatches();
    };
  }

  /** Ends open watches cleanly, as at a server's timeout. */
  closeWatches(resource?: string): void {
    for (const watch of this.#watches) if (resource === undefined || watch.resource === resource) watch.stream.end();
  }

  /** Sends an ERROR event 410 to open watches and ends them. */
  expireWatches(resource?: string): void {
    const { status } = tooOldResourceVersion(this.#storage.revision, this.#storage.revision + 1n);
    for (const watch of this.#watches) {
      if (resource !== undefined && watch.resource !== resource) continue;
      watch.stream.push({ type: "ERROR", object: status });
      watch.stream.end();
    }
  }

  /** Ends watches and the server's own controllers. */
  close(): void {
    this.#closed.abort(new Error("the API server is closed"));
    this.closeWatches();
  }

  #bootstrap(): void {
    for (const name of ["default", "kube-system", "kube-public", "kube-node-lease"]) {
      this.#storage.put("namespaces", {
        kind: "Namespace",
        apiVersion: "v1",
        metadata: {
          name,
          uid: generateUid(this.#random),
          creationTimestamp: timestamp(this.#clock.now()),
          labels: { "kubernetes.io/metadata.name": name },
        },
        spec: { finalizers: ["kubernetes"] },
        status: { phase: "Active" },
      });
      this.#storage.put("serviceaccounts", {
        kind: "ServiceAccount",
        apiVersion: "v1",
        metadata: { name: "default", namespace: name, uid: generateUid(this.#random), creationTimestamp: timestamp(this.#clock.now()) },
      });
    }
  }

  #serveOther(request: ApiRequest): ApiResponse {
    if (request.method === "POST" && isReview(request.path)) return answer(201, review(request.path, bodyOf(request)));
    const meta = serveMeta(this.#registry.resources, request.path, request.headers?.["accept"] ?? "");
    if (meta === undefined && isGroupServed(this.#registry.resources, request.path)) throw noSuchPath();
    if (meta === undefined) return { kind: "text", status: 404, headers: { "content-type": "text/plain" }, body: "404 page not found\n" };
    if (typeof meta === "string") return { kind: "text", status: 200, headers: { "content-type": "text/plain" }, body: meta };
    return { kind: "object", status: 200, headers: { "content-type": meta.contentType }, body: meta.body };
  }

  async #serveResource(request: ApiRequest, path: ResourcePath): Promise<ApiResponse> {
    const query = queryOf(request);
    checkAccepted(request.headers?.["accept"], path);
    const verb = verbOf(request.method, path, isTrue(query("watch")) && query("watch") !== undefined);
    const warnings: string[] = [];
    let response: ApiResponse;
    try {
      response = await this.#serve(verb, request, path, { query, warn: (text) => void warnings.push(text) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#record(request, path, verb, error.code, error.status);
      return withWarnings(answer(error.code, error.status), warnings);
    }
    this.#record(request, path, verb, response.status, response.kind === "object" ? response.body : undefined);
    if (verb in OPTIONS && response.kind === "object") {
      if (path.definition.builtInKind === "CustomResourceDefinition") warnings.push(...definitionWarnings(response.body));
      response = withWarnings(response, warnings);
    }
    const accept = request.headers?.["accept"] ?? "";
    const isRead = verb === "get" || verb === "list";
    if (isRead && response.kind === "object" && response.status === 200 && path.subresource === "" && wantsTable(accept)) {
      return answer(200, tableOf(path.definition, response.body, { nowMs: this.#clock.now(), includeObject: query("includeObject") }));
    }
    if (verb === "list" && response.kind === "object" && wantsMetadata(accept)) return answer(200, metadataOf(response.body));
    return response;
  }

  async #serve(verb: Verb, request: ApiRequest, path: ResourcePath, { query, warn }: Serving): Promise<ApiResponse> {
    const { definition, namespace, name, subresource } = path;
    if (subresource !== "" && !definition.subresources.some((one) => one === subresource)) throw noSuchPath();
    const dryRun = (query("dryRun") ?? "") !== "";
    const isScale = subresource === "scale";
    const target = isScale ? SCALE : definition;
    const writer = {
      manager: managerOf(query("fieldManager"), request.headers?.["user-agent"]),
      subresource,
      now: timestamp(this.#clock.now()),
    };
    const options = OPTIONS[verb];
    const validation = options === undefined ? IGNORE : fieldValidationOf(query("fieldValidation"), options, warn);
    switch (verb) {
      case "get": {
        const object = this.#registry.get(definition, namespace, name);
        return answer(200, isScale ? scaleOf(definition, object) : object);
      }
      case "list":
        return answer(200, await this.#list(path, query));
      case "watch":
        return this.#watch(request, path, query);
      case "create": {
        if (subresource === "binding")
          return answer(201, bindPod(this.#registry, path, decodedBody(request, BINDING, validation), this.#clock.now()));
        if (subresource !== "" || name !== "") throw methodNotAllowed(definition, verb);
        if (definition.namespaced && namespace === "") throw badRequest("an empty namespace may not be set during creation");
        return answer(201, this.#registry.create(definition, namespace, decodedBody(request, definition, validation), { dryRun, writer }));
      }
      case "update": {
        const body = decodedBody(request, target, validation);
        if (isScale)
          return answer(
            200,
            updateScale(this.#registry, path, () => body, { verb, dryRun, writer }),
          );
        // The transform takes over the body, so it must run only once.
        const { object, isCreated } = this.#registry.update(definition, {
          namespace,
          name,
          subresource,
          verb,
          dryRun,
          writer,
          transform: () => body,
        });
        return answer(isCreated ? 201 : 200, object);
      }
      case "patch": {
        const contentType = request.headers?.["content-type"];
        checkPatchOptions(isApply(contentType), query);
        if (isApply(contentType)) {
          const force = isTrue(query("force") ?? "false");
          const { object, isCreated } = applyConfiguration(this.#registry, path, request.body, { ...writer, force, dryRun });
          return answer(isCreated ? 201 : 200, object);
        }
        const patch = patcherFor(isScale ? SCALE : definition, contentType ?? "", parsed(request.body));
        const apply = (current: JsonObject): JsonObject => decodedPatch(patch(current), target, validation);
        if (isScale) return answer(200, updateScale(this.#registry, path, apply, { verb, dryRun, writer }));
        return answer(
          200,
          this.#registry.update(definition, { namespace, name, subresource, verb, dryRun, writer, transform: apply }).object,
        );
      }
      case "delete": {
        if (subresource !== "") throw methodNotAllowed(definition, verb);
        const { object, isGone } = this.#registry.delete(definition, {
          namespace,
          name,
          ...deleteOptionsOf(query, optionalBodyOf(request)),
        });
        return answer(200, isGone && !definition.returnsDeletedObject ? deletedStatus(definition, object) : object);
      }
      case "deletecollection": {
        const body = await this.#list(path, query);
        const options = deleteOptionsOf(query, optionalBodyOf(request));
        const items = Array.isArray(body["items"]) ? body["items"].filter(isObject) : [];
        for (const item of items) {
          const at = { namespace: String(metaOf(item)["namespace"] ?? ""), name: nameOf(item) };
          this.#registry.delete(definition, { ...at, ...options });
        }
        return answer(200, body);
      }
    }
  }

  async #list(path: ResourcePath, query: (name: string) => string | undefined): Promise<JsonObject> {
    const { definition, namespace } = path;
    const options = {
      resourceVersion: query("resourceVersion"),
      resourceVersionMatch: query("resourceVersionMatch"),
      continueToken: nonEmpty(query("continue")),
    };
    checkListOptions({ ...options, isWatch: false, sendInitialEvents: undefined });
    await this.#waitUntilFresh(options.resourceVersion);
    const selects = selectorOf(definition, query("labelSelector"), query("fieldSelector"));
    const result = listObjects(this.#storage, definition, { namespace, selects, limit: Number(query("limit") ?? 0), ...options });
    return listAnswer(definition, result);
  }

  async #watch(request: ApiRequest, path: ResourcePath, query: (name: string) => string | undefined): Promise<ApiResponse> {
    const { definition } = path;
    const resourceVersion = nonEmpty(query("resourceVersion"));
    const sendInitialEvents = query("sendInitialEvents") === undefined ? undefined : isTrue(query("sendInitialEvents"));
    checkListOptions({
      isWatch: true,
      sendInitialEvents,
      resourceVersion,
      resourceVersionMatch: query("resourceVersionMatch"),
      continueToken: undefined,
    });
    // `kubectl get -w NAME` watches one object by its path.
    const byName = path.name === "" ? query("fieldSelector") : `metadata.name=${path.name}`;
    const selects = selectorOf(definition, query("labelSelector"), byName);
    const bookmarks = isTrue(query("allowWatchBookmarks")) && query("allowWatchBookmarks") !== undefined;
    const timeoutMs = query("timeoutSeconds") === undefined ? DEFAULT_WATCH_TIMEOUT_MS : Number(query("timeoutSeconds")) * 1000;
    const wantsState = sendInitialEvents === true || ((resourceVersion ?? "0") === "0" && sendInitialEvents !== false);
    if (sendInitialEvents === true) await this.#waitUntilFresh(resourceVersion);

    const after = wantsState || resourceVersion === undefined ? this.#storage.revision : parseResourceVersion(resourceVersion);
    const history = this.#storage.history(definition.id).since(after);
    const start = wantsState
      ? { kind: "state" as const, endsWithBookmark: sendInitialEvents === true && bookmarks }
      : { kind: "events" as const, history: history ?? [], after };
    const base = { definition, namespace: path.namespace, selects, bookmarks, timeoutMs, bufferEvents: this.#watchBufferEvents };
    const stream = openWatch(this.#storage, this.#clock, { ...base, start });
    if (history === undefined) {
      // Sent in the stream, after the 200, as upstream's watch cache does.
      stream.push({ type: "ERROR", object: tooOldResourceVersion(after, this.#storage.history(definition.id).compactedAt + 1n).status });
      stream.end();
    }
    const watch = { resource: definition.id, stream };
    this.#watches.add(watch);
    stream.ended.addEventListener("abort", () => this.#watches.delete(watch), { once: true });
    if (wantsTable(request.headers?.["accept"] ?? "")) this.#showAsTable(stream, definition, query("includeObject"));
    return { kind: "watch", status: 200, headers: { "content-type": "application/json" }, stream };
  }

  #showAsTable(stream: WatchStream, definition: ResourceDefinition, includeObject: string | undefined): void {
    let isFirst = true;
    stream.transform = (event: WatchEvent): WatchEvent => {
      if (event.type === "ERROR") return event;
      const object = tableOf(definition, event.object, {
        nowMs: this.#clock.now(),
        includeObject,
        noHeaders: !isFirst,
        isBookmark: event.type === "BOOKMARK",
      });
      isFirst = false;
      return { type: event.type, object };
    };
  }

  #record(request: ApiRequest, path: ResourcePath, verb: Verb, status: number, response?: JsonObject): void {
    if (this.#listeners.size === 0) return;
    const record = requestRecord(request, path, { atMs: this.#clock.now(), verb, status, response });
    for (const listener of this.#listeners) listener(record);
  }

  /** @throws {ApiError} 504 if `resourceVersion` stays in the future */
  async #waitUntilFresh(resourceVersion: string | undefined): Promise<void> {
    if (resourceVersion === undefined || resourceVersion === "") return;
    const asked = parseResourceVersion(resourceVersion);
    if (asked <= this.#storage.revision) return;
    const reached = new AbortController();
    const unsubscribe = this.#storage.subscribe(({ revision }) => {
      if (revision >= asked) reached.abort(new Error("reached"));
    });
    try {
      await this.#clock.after(FRESHNESS_WAIT_MS, reached.signal);
    } catch (error) {
      if (!reached.signal.aborted) throw error;
    } finally {
      unsubscribe();
    }
    if (asked > this.#storage.revision) throw tooLargeResourceVersion(asked, this.#storage.revision);
  }
}

export function createApiServer(options: ApiServerOptions): ApiServer {
  return new ApiServer(options);
}

function answer(status: number, body: JsonObject): ObjectResponse {
  return { kind: "object", status, headers: { "content-type": "application/json" }, body };
}

function withWarnings(response: ObjectResponse, texts: readonly string[]): ObjectResponse {
  const warning = warningHeader(texts);
  return warning === undefined ? response : { ...response, headers: { ...response.headers, warning } };
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
