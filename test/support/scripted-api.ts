/**
 * The in-memory API server behind an interceptor: every request of the tested component is recorded, and a script may answer, reject,
 * lose or delay it; all other requests are answered by the server, with upstream's rules and messages. Requests of other clients
 * bypass the script but not the server, so every object is one that an API server would accept.
 *
 * const api = await ScriptedApi.create({ clock }); await api.put("pods", pod({ name: "a" })); api.script = { "create pods": (_, nth) =>
 * (nth === 2 ? "lost" : undefined), "patch replicasets/status": refusal(500, "InternalError", "no") }; await sync(api);
 * expect(api.writes).toEqual(["create pods", "create pods"]);
 *
 * The server's own garbage collector is off, because tests do not check its deletes. The model is controller-runtime's
 * pkg/client/interceptor.
 */
import { resourcePath } from "../../shared/kube/http/path.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { deepFreeze } from "../../shared/base/freeze.ts";
import { objectKey, RESOURCES } from "../../shared/kube/objects/resources.ts";
import type { CachedResource, Resource } from "../../shared/kube/objects/resources.ts";
import type { KubeObject, ObjectMeta } from "../../shared/kube/objects/wire.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { KubeApiError, UnansweredError } from "../../shared/kube/client/errors.ts";
import type {
  CreateRequest,
  DeleteRequest,
  KubeList,
  KubeReader,
  KubeWriter,
  PatchRequest,
  ReplaceRequest,
} from "../../shared/kube/client/kube.ts";
import { Mirror } from "../simulation/mirror.ts";
import type { Change } from "../simulation/mirror.ts";

/** A JSON object whose fields are checked one by one. */
export type Json = Readonly<Record<string, unknown>>;

/** An object as the API server stores it. */
export interface LiveObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly namespace: string };
  readonly spec?: Json;
  readonly status?: Json;
}

/** A client's input to the API server, without fields that only the server sets (uid, versions). */
export interface GivenObject {
  /** `creationTimestamp`: default now. `generation`: reached by changing the spec this often; default: no change. */
  readonly metadata: Partial<Omit<ObjectMeta, "uid" | "resourceVersion" | "deletionTimestamp">> & { readonly name: string };
  readonly spec?: Json;
  readonly status?: Json;
  /** Deleted by a user while a finalizer holds it. */
  readonly deleting?: boolean;
}

export interface Call {
  readonly verb: "get" | "list" | "create" | "patch" | "delete" | "replace";
  readonly resource: Resource;
  readonly subresource?: string;
  /** Empty for a list. */
  readonly name: string;
  readonly body?: unknown;
  /** Options of a delete. */
  readonly preconditions?: DeleteRequest["preconditions"];
}

/**
 * The fate of a call. An error: rejected and not executed. `never`: neither executed nor answered. `lost`: executed,
 * but the response is lost. `answer`: returned instead of the server's response. Undefined: the server executes and answers.
 */
export type Fate = Error | "never" | "lost" | { readonly answer: KubeObject | undefined } | undefined;

/** `nth`: the number of calls of that name, including this one. The function may take time, or change state first. */
export type Intercept = (call: Call, nth: number) => Fate | void | Promise<Fate | void>;

/** The name of a call, as in `writes`. */
export type CallName = `${Call["verb"]} ${Resource}${"" | "/status"}`;

/** Fates by call; `*`: for all calls without their own line. */
export type Script = Readonly<Partial<Record<CallName | "*", Fate | Intercept>>>;

/** The finalizer that holds an object being deleted until `remove`. */
const FINALIZER = "example.com/held";
export const NAMESPACE = "shop";

export class ScriptedApi implements KubeReader, KubeWriter {
  readonly server: ApiServer;
  readonly calls: Call[] = [];
  script: Script = {};
  /** The duration of every call. */
  latencyMs = 0;
  readonly #clock: Clock;
  readonly #kube: KubeReader & KubeWriter;
  readonly #person: KubeReader & KubeWriter;
  readonly #mirror: Mirror;
  readonly #changes: Change[] = [];
  readonly #counts = new Map<CallName, number>();
  /** The time of an action that does not happen now. */
  #atMs: number | undefined;

  private constructor(clock: Clock) {
    this.#clock = clock;
    const serverClock = { now: () => this.#atMs ?? clock.now(), after: clock.after };
    this.server = createApiServer({ clock: serverClock, random: createSeededRandom(1), garbageCollection: false });
    this.#kube = createInProcessKube(this.server, { component: "tested" });
    this.#person = createInProcessKube(this.server, { component: "person" });
    this.#mirror = new Mirror(clock, (change) => this.#changes.push(change));
  }

  static async create({ clock }: { readonly clock: Clock }): Promise<ScriptedApi> {
    const api = new ScriptedApi(clock);
    await api.#mirror.start(api.server);
    await api.#person.create({ resource: "namespaces", namespace: "", body: { metadata: { name: NAMESPACE } } });
    return api;
  }

  /** Requests that changed an object, as `create pods`: without reads and Events. */
  get writes(): readonly string[] {
    return this.calls.flatMap((call) => (isRead(call) || call.resource === "events" ? [] : [nameOf(call)]));
  }

  get reads(): readonly string[] {
    return this.calls.flatMap((call) => (isRead(call) ? [`${nameOf(call)} ${call.name}`] : []));
  }

  /**
   * Sent Events, as `Warning FailedCreate Error creating: no`, with the count where it is not 1; for a patch `2 Error
   * creating: no`.
   */
  get events(): readonly string[] {
    return this.calls.flatMap(({ resource, body }) => {
      if (resource !== "events") return [];
      const { type, reason, message, count } = body as { type?: string; reason?: string; message: string; count: number }; // a patch has the last two
      return [[type, reason, ...(count > 1 ? [count] : []), message].filter((part) => part !== undefined).join(" ")];
    });
  }

  /** All changes since `from`, in order, as watches report them. */
  changes(from = 0): readonly Change[] {
    this.#mirror.update();
    return this.#changes.slice(from);
  }

  /** In the order in which they were created. */
  all(resource: CachedResource): readonly LiveObject[] {
    this.#mirror.update();
    return this.#mirror.all(resource) as readonly LiveObject[]; // of a namespace, all of them
  }

  /** @throws {Error} when there is none */
  find(resource: CachedResource, name: string, namespace: string = NAMESPACE): LiveObject {
    this.#mirror.update();
    const object = this.#mirror.get(resource, objectKey(namespace, name));
    if (!object) throw new Error(`${resource} ${name} does not exist`);
    return object as LiveObject; // of a namespace, all of them
  }

  uid(resource: CachedResource, name: string): string {
    return this.find(resource, name).metadata.uid;
  }

  /** Creates an object as a user, and writes its status as its controller. */
  async put(resource: CachedResource, { metadata, spec, status, deleting = false }: GivenObject): Promise<LiveObject> {
    const { creationTimestamp, generation, namespace = NAMESPACE, ...rest } = metadata;
    if (this.server.peek("namespaces", "", namespace) === undefined)
      await this.#person.create({ resource: "namespaces", namespace: "", body: { metadata: { name: namespace } } });
    const { apiVersion, kind } = RESOURCES[resource];
    /** Earlier sizes, one per generation. */
    const before = (times: number): object => ({ ...spec, ...(times > 0 && { replicas: Number(spec?.["replicas"] ?? 1) + times }) });
    // A pod's spec is almost immutable, and a deletion also increments the generation.
    const earlier = resource === "pods" ? 0 : Math.max(0, (generation ?? 1) - (deleting ? 2 : 1));
    this.#atMs = creationTimestamp === undefined ? undefined : Date.parse(creationTimestamp);
    await this.#person.create({
      resource,
      namespace,
      body: { apiVersion, kind, metadata: { ...rest, namespace }, spec: before(earlier) },
    });
    this.#atMs = undefined;
    for (let times = earlier - 1; times >= 0; times--) await this.#set(resource, namespace, rest.name, { spec: before(times) });
    if (status !== undefined) await this.#set(resource, namespace, rest.name, { status });
    if (deleting) await this.terminate(resource, rest.name, namespace);
    return this.find(resource, rest.name, namespace);
  }

  /** Changes an object as a user: metadata, spec or, with the subresource, status. */
  async change(
    resource: CachedResource,
    name: string,
    change: (object: LiveObject) => { readonly metadata?: object; readonly spec?: object; readonly status?: object },
  ): Promise<LiveObject> {
    const { status, metadata, spec } = change(this.find(resource, name));
    if (metadata !== undefined || spec !== undefined) await this.#set(resource, NAMESPACE, name, { metadata, spec });
    if (status !== undefined) await this.#set(resource, NAMESPACE, name, { status });
    return this.find(resource, name);
  }

  /** Deletes an object as a user while a finalizer holds it. */
  async terminate(resource: CachedResource, name: string, namespace: string = NAMESPACE): Promise<void> {
    const { metadata } = this.find(resource, name, namespace);
    await this.#set(resource, namespace, name, { metadata: { ...metadata, finalizers: [FINALIZER] } });
    await this.#person.delete({ resource, namespace, name, preconditions: { uid: metadata.uid } });
  }

  /** Deletes an object as a user and removes its finalizer. */
  async remove(resource: CachedResource, name: string): Promise<void> {
    const { metadata } = this.find(resource, name);
    await this.#person.delete({ resource, namespace: NAMESPACE, name, preconditions: { uid: metadata.uid }, gracePeriodSeconds: 0 });
    const held = this.all(resource).find(({ metadata: { uid } }) => uid === metadata.uid);
    if (held) await this.#set(resource, NAMESPACE, name, { metadata: { ...held.metadata, finalizers: [] } });
  }

  /** Binds the pod to a node as the scheduler does: from then on its deletion waits for that node. */
  async bind(name: string, node: string): Promise<void> {
    const path = resourcePath("pods", NAMESPACE, name, "binding");
    const { status } = await this.server.request({
      method: "POST",
      path,
      body: { metadata: { name }, target: { kind: "Node", name: node } },
    });
    if (status !== 201) throw new Error(`${path} answered ${status}`);
  }

  get(...[resource, namespace, name, options]: Parameters<KubeReader["get"]>): Promise<KubeObject | undefined> {
    return this.#ask({ verb: "get", resource, name }, () => this.#kube.get(resource, namespace, name, options));
  }

  list(...[resource, namespace, options]: Parameters<KubeReader["list"]>): Promise<KubeList> {
    return this.#ask({ verb: "list", resource, name: "" }, () => this.#kube.list(resource, namespace, options));
  }

  create(request: CreateRequest): Promise<KubeObject> {
    const { resource, body } = request;
    const { name } = (body as KubeObject).metadata; // creators set a name
    return this.#ask({ verb: "create", resource, name, body }, () => this.#kube.create(request));
  }

  patch(request: PatchRequest): Promise<KubeObject> {
    const { resource, subresource, name, body } = request;
    return this.#ask({ verb: "patch", resource, ...(subresource && { subresource }), name, body }, () => this.#kube.patch(request));
  }

  delete(request: DeleteRequest): Promise<KubeObject | undefined> {
    const { resource, name, preconditions } = request;
    return this.#ask({ verb: "delete", resource, name, preconditions }, () => this.#kube.delete(request));
  }

  replace(request: ReplaceRequest): Promise<KubeObject> {
    const { resource, name, body } = request;
    return this.#ask({ verb: "replace", resource, name, body }, () => this.#kube.replace(request));
  }

  async #ask<T>(call: Call, execute: () => Promise<T>): Promise<T> {
    if (this.latencyMs > 0) await this.#clock.after(this.latencyMs);
    this.calls.push(deepFreeze(call));
    const name = nameOf(call);
    const nth = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, nth);
    const line = name in this.script ? this.script[name] : this.script["*"];
    const fate = typeof line === "function" ? await line(call, nth) : line;
    if (fate instanceof Error) throw fate;
    if (fate === "never") throw new UnansweredError("no response within 5s");
    if (typeof fate === "object") return fate.answer as T; // a script knows the fields of its request
    const result = await execute();
    if (fate === "lost") throw new UnansweredError("no response within 5s");
    return result;
  }

  async #set(
    resource: CachedResource,
    namespace: string,
    name: string,
    parts: Readonly<Record<string, object | undefined>>,
  ): Promise<void> {
    const body = Object.entries(parts).flatMap(([part, value]) => (value === undefined ? [] : [{ op: "add", path: `/${part}`, value }]));
    const subresource = "status" in parts ? ({ subresource: "status" } as const) : {};
    await this.#person.patch({ resource, namespace, name, ...subresource, type: "application/json-patch+json", body });
  }
}

export function refusal(code: number, reason: string, message: string, causes: KubeApiError["causes"] = []): KubeApiError {
  return new KubeApiError({ code, reason, message, causes });
}

/** Refuses every create of a pod after the first `limit`. */
export function quota(limit: number): Script {
  let made = 0;
  return { "create pods": () => (++made > limit ? refusal(403, "Forbidden", "exceeded quota") : undefined) };
}

function isRead({ verb }: Call): boolean {
  return verb === "get" || verb === "list";
}

function nameOf({ verb, resource, subresource }: Call): CallName {
  return `${verb} ${resource}${subresource === "status" ? "/status" : ""}`;
}
