/**
 * The API server that upstream's controllers and ours write to in turn: the result of a sync is its request log and the final objects,
 * which are then restored. Requests can be rejected, the same ones for both.
 */
import { isDeepStrictEqual } from "node:util";
import { createVirtualClock, type VirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import type { JsonObject } from "../../shared/base/json.ts";
import { CACHED_RESOURCES, RESOURCES, tableOf, type CachedResource } from "../../shared/kube/objects/resources.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import { createApiServer, type ApiResponse, type ApiServer } from "../../shared/api-server/api-server.ts";
import type { ApiRequest } from "../../shared/api-server/rest/request-info.ts";
import type { Release } from "../../shared/kube/releases.ts";
import { COMPARED_RELEASE } from "./release.ts";

export type Json = null | boolean | number | string | readonly Json[] | Fields;
export type Fields = { readonly [field: string]: Json };

export const NAMESPACE = "shop";
/** The start time. Not a whole second: upstream computes the ratio of pod ages as zero if an age is below a nanosecond, and panics. */
const START_MS = Date.parse("2026-03-01T10:00:00.001Z");

/** The objects of one namespace, by resource and sorted by name. */
export type State = { readonly [R in CachedResource]: readonly KubeObject[] };

/** Rejects requests with that verb and resource; `change` stands for patches and replacements. */
export interface Fault {
  readonly verb: Verb;
  /** `replicasets`, `deployments/status`. */
  readonly resource: string;
  /**
   * For creates: all from the `n`-th on, counted from 1. For changes and deletes: a third of the objects, selected by name, because
   * upstream's order of iteration is random. `all`: every request.
   */
  readonly which: number | "all";
  readonly refusal: keyof typeof REFUSALS;
}

type Verb = "create" | "change" | "delete";
const VERBS: Readonly<Record<string, Verb>> = { POST: "create", PUT: "change", PATCH: "change", DELETE: "delete" };

export const REFUSALS = {
  conflict: [409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again"],
  internal: [500, "InternalError", "Internal error occurred: etcd is away"],
  forbidden: [403, "Forbidden", "exceeded quota"],
  gone: [404, "NotFound", "not found"],
  invalid: [422, "Invalid", "is invalid"],
  terminating: [403, "Forbidden", "because it is being terminated"],
  overloaded: [503, "ServiceUnavailable", "the server is currently unable to handle the request"],
} as const;

/** One write as the client sent it, and its result. */
export interface Write {
  readonly verb: Verb;
  readonly resource: string;
  /** The object's name; for a create, the name that the server generated or would have generated. */
  readonly name: string;
  readonly status: number;
  /** Whether a fault rejected the write; then `after` is the object that it would have created or changed. */
  readonly refused: boolean;
  readonly before: Fields | undefined;
  readonly after: Fields | undefined;
}

export class SharedApiServer {
  readonly clock: VirtualClock = createVirtualClock(START_MS);
  readonly server: ApiServer;
  #atMs: number | undefined;
  #random = createSeededRandom(1);

  /** The release whose rules and hashes apply. */
  readonly release: Release;

  private constructor(release: Release) {
    this.release = release;
    const clock = { now: () => this.#atMs ?? this.clock.now(), after: this.clock.after };
    this.server = createApiServer({ clock, random: { next: () => this.#random.next() }, garbageCollection: false });
  }

  static async create(release = COMPARED_RELEASE): Promise<SharedApiServer> {
    const shared = new SharedApiServer(release);
    await shared.person("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    return shared;
  }

  /**
   * Sends a user's request.
   * @throws {Error} if it is rejected, because a script must not contain invalid requests
   */
  async person<T = Fields>(method: string, path: string, body?: object, contentType = "application/json"): Promise<T> {
    const headers = { "user-agent": "person", "content-type": contentType };
    const answer = await this.server.request({ method, path, headers, ...(body && { body: JSON.stringify(body) }) });
    if (answer.kind !== "object" || answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body as T; // JSON
  }

  /** Runs `act` with the clock set to that time. */
  async at<T>(atMs: number, act: () => Promise<T>): Promise<T> {
    this.#atMs = atMs;
    try {
      return await act();
    } finally {
      this.#atMs = undefined;
    }
  }

  async state(): Promise<State> {
    const lists = await Promise.all(
      CACHED_RESOURCES.map(async (resource) => {
        const { items } = await this.person<{ readonly items: readonly KubeObject[] }>("GET", collection(resource));
        const { apiVersion, kind } = RESOURCES[resource];
        return [resource, items.map((object) => ({ ...object, apiVersion, kind }))] as const;
      }),
    );
    const byResource = new Map(lists);
    return tableOf(CACHED_RESOURCES, (resource) => byResource.get(resource) ?? []);
  }

  /**
   * Saves the current objects and returns a function that restores them, including the uids to assign next, so that these do not depend on
   * what happens in between.
   */
  mark(): () => void {
    const restore = this.server.backup();
    const seed = Number(this.server.resourceVersion);
    const back = (): void => {
      restore();
      this.#random = createSeededRandom(seed);
    };
    this.#random = createSeededRandom(seed);
    return back;
  }
}

/** The entry point for requests of the tested controller. */
export class Door {
  readonly writes: Write[] = [];
  /** The Events sent, as `component Kind/name Type Reason message`. */
  readonly events: string[] = [];
  readonly #server: ApiServer;
  readonly #faults: readonly Fault[];
  readonly #counts = new Map<string, number>();
  /** The client's copy of each object, for clients that ignore responses. */
  #stale: ReadonlyMap<string, Fields> = new Map();

  constructor(server: ApiServer, faults: readonly Fault[]) {
    this.#server = server;
    this.#faults = faults;
  }

  /** Sets the copies that the client uses to replace whole objects; see `upToDate`. */
  observe(state: State): void {
    const objects = CACHED_RESOURCES.flatMap((resource) => state[resource].map((object) => ({ resource, object })));
    this.#stale = new Map(objects.map(({ resource, object }) => [`${resource} ${object.metadata.name}`, object as unknown as Fields])); // JSON
  }

  /**
   * Deployment Q11: when a sync of upstream replaces an object for the second time, it sends the version from before its first write, is
   * rejected, and restarts the sync. Ours uses the response. To compare both, this converts upstream's replacement to a patch against the
   * object at the start of the sync. A replacement that repeats the first write is still rejected.
   */
  #upToDate(request: ApiRequest, resource: string, name: string, current: Fields | undefined): ApiRequest {
    const stale = this.#stale.get(`${resource} ${name}`);
    const wrote = this.writes.some((write) => write.resource.split("/")[0] === resource && write.name === name && write.status < 400);
    if (request.method !== "PUT" || stale === undefined || current === undefined || !wrote) return request;
    const body = fieldsOf(request.body);
    if (versionOf(body) !== versionOf(stale)) return request;
    const changed = mergePatch(stale, body);
    if (isWithin(changed, current)) return request;
    const patch = { ...changed, apiVersion: body["apiVersion"] ?? null, kind: body["kind"] ?? null };
    const headers = { ...request.headers, "content-type": "application/merge-patch+json" };
    return { ...request, method: "PATCH", headers, body: JSON.stringify(patch) };
  }

  async request(request: ApiRequest): Promise<ApiResponse> {
    const verb = VERBS[request.method];
    if (verb === undefined) return await this.#server.request(request);
    const [, , resource = "", name = "", subresource] =
      /\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(request.path) ?? [];
    if (resource === "events") {
      const body = fieldsOf(request.body);
      this.events.push(eventText(body));
      // The body is JSON. Events are not stored, because nothing else in the scenario depends on them.
      return { kind: "object", status: 201, headers: {}, body: body as JsonObject };
    }
    const target = subresource === undefined ? resource : `${resource}/${subresource}`;
    const call = `${verb} ${target}`;
    const nth = (this.#counts.get(call) ?? 0) + 1;
    this.#counts.set(call, nth);
    const fault = this.#faults.find((each) => {
      if (each.verb !== verb || each.resource !== target) return false;
      return each.which === "all" || (verb === "create" ? nth >= each.which : thirdOf(name) === each.which);
    });
    const before = name === "" ? undefined : (this.#server.peek(storageId(resource), NAMESPACE, name) as Fields | undefined); // JSON
    const sent = this.#upToDate(request, resource, name, before);
    const asked = fault === undefined ? sent : { ...sent, query: { ...queryOf(sent), dryRun: "All" } };
    const answer = await this.#server.request(asked);
    const object = answer.kind === "object" && answer.status < 400 && verb !== "delete" ? (answer.body as Fields) : undefined; // JSON
    const metadata = object?.["metadata"] as Fields | undefined; // the type of an object's metadata
    const refusal = fault && answer.status < 400 ? refusalOf(fault.refusal) : undefined;
    this.writes.push({
      verb,
      resource: target,
      name: String(metadata?.["name"] ?? (name || nameIn(request.body))),
      status: (refusal ?? answer).status,
      refused: refusal !== undefined,
      before,
      after: object,
    });
    return refusal ?? answer;
  }
}

/** Returns the name of the resource for `peek`. */
export function storageId(resource: string): string {
  const { group } = RESOURCES[resource as CachedResource]; // a resource of this table, because the server has accepted the path
  return group === "" ? resource : `${resource}.${group}`;
}

export function collection(resource: string): string {
  const { path } = RESOURCES[resource as CachedResource]; // a resource of this table
  return `/${path}/namespaces/${NAMESPACE}/${resource}`;
}

function queryOf({ query = {} }: ApiRequest): Readonly<Record<string, string | number | boolean | undefined>> {
  return query instanceof URLSearchParams ? Object.fromEntries(query) : query;
}

export function refusalOf(refusal: Fault["refusal"]): ApiResponse {
  const [status, reason, message] = REFUSALS[refusal];
  const causes =
    refusal === "terminating" ? [{ reason: "NamespaceTerminating", message: "is being terminated", field: "metadata.namespace" }] : [];
  const details = causes.length > 0 ? { details: { causes } } : {};
  const body = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, ...details, code: status };
  return { kind: "object", status, headers: { "content-type": "application/json" }, body };
}

function fieldsOf(body: unknown): Fields {
  return (typeof body === "string" ? JSON.parse(body) : body) as Fields; // JSON of an API client
}

function nameIn(body: unknown): string {
  const { name, generateName } = (fieldsOf(body)["metadata"] ?? {}) as Fields; // the type of an object's metadata
  return String(name ?? generateName ?? "");
}

function eventText({ type, reason, message, source, involvedObject }: Fields): string {
  const { kind, name } = involvedObject as Fields; // every Event has an involvedObject
  return [(source as Fields)["component"], `${String(kind)}/${String(name)}`, type, reason, message].join(" ");
}

/** Maps a name to 1, 2 or 3. */
function thirdOf(name: string): number {
  return (Array.from(name).reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0) % 3) + 1;
}

function versionOf(object: Fields): Json {
  return (object["metadata"] as Fields)["resourceVersion"] ?? null; // the type of an object's metadata
}

/** Returns the merge patch (RFC 7386) that changes `before` into `after`. */
function mergePatch(before: Fields, after: Fields): Fields {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    fields.flatMap((field): readonly (readonly [string, Json])[] => {
      const [a, b] = [before[field] ?? null, after[field] ?? null];
      if (isDeepStrictEqual(a, b)) return [];
      return [[field, isFields(a) && isFields(b) ? mergePatch(a, b) : b]];
    }),
  );
}

/** Returns whether the patch would change nothing. */
function isWithin(patch: Fields, object: Fields): boolean {
  return Object.entries(patch).every(([field, value]) => {
    const current = object[field] ?? null;
    return isFields(value) && isFields(current) ? isWithin(value, current) : isDeepStrictEqual(value, current);
  });
}

function isFields(value: Json): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
