/** An API server of maps: create, patch, delete, get, list, with the preconditions the syncs rest on. A test may script answers. */
import { RESOURCES } from "../../../shared/api/resources.ts";
import type { CachedResource, Resource } from "../../../shared/api/resources.ts";
import type { KubeObject, Labels, ObjectMeta, OwnerReference } from "../../../shared/api/wire.ts";
import type { Clock } from "../../../shared/ports/clock.ts";
import { KubeApiError, UnansweredError } from "../../../shared/ports/errors.ts";
import type { CreateRequest, DeleteRequest, KubeList, KubeReader, KubeWriter, PatchRequest, Target } from "../../../shared/ports/kube.ts";

export interface FakeObject {
  readonly metadata: ObjectMeta & { readonly namespace: string };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

export interface Call {
  readonly verb: "get" | "list" | "create" | "patch" | "delete";
  readonly resource: Resource;
  readonly subresource?: string;
  readonly name: string;
  readonly body?: unknown;
}

/** An error: refused. `lost`: executed, but the answer is lost. `never`: neither executed nor answered. */
export type Script = (call: Call, nth: number) => Error | "lost" | "never" | undefined | void;

export class FakeApi implements KubeReader, KubeWriter {
  rv = 100;
  readonly log: { readonly type: "put" | "delete"; readonly resource: CachedResource; readonly object: FakeObject }[] = [];
  readonly calls: Call[] = [];
  /** Deletes of pods wait for their kubelet unless this is false. */
  graceful = true;
  script: Script = () => undefined;
  /** How long every call takes. */
  latencyMs = 0;
  readonly #objects = new Map<string, FakeObject>();
  readonly #clock: Clock;
  #uids = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What left us, as `create pods`, without reads and Events. */
  get writes(): readonly string[] {
    return this.calls.flatMap(({ verb, resource, subresource }) =>
      verb === "get" || verb === "list" || resource === "events"
        ? []
        : [`${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`],
    );
  }

  get reads(): readonly string[] {
    return this.calls.flatMap(({ verb, resource, name }) => (verb === "get" || verb === "list" ? [`${verb} ${resource} ${name}`] : []));
  }

  get events(): readonly string[] {
    return this.calls.flatMap(({ resource, body }) => {
      const event = body as { type: string; reason: string; message: string };
      return resource === "events" ? [`${event.type} ${event.reason} ${event.message}`] : [];
    });
  }

  all(resource: Resource): readonly FakeObject[] {
    return [...this.#objects].flatMap(([id, object]) => (id.startsWith(`${resource} `) ? [object] : []));
  }

  /** What the stream tells although the API server never said it: somebody else wrote into the queue, or into Redis. */
  forge(resource: CachedResource, object: FakeObject): void {
    this.log.push({ type: "put", resource, object });
  }

  /** What somebody else does: stores the object as given (a new uid if it has none) and tells the stream. */
  put(
    resource: CachedResource,
    object: { readonly metadata: Partial<ObjectMeta> & { readonly name: string }; readonly spec?: object; readonly status?: object },
  ): FakeObject {
    const metadata = { namespace: "shop", uid: `uid-${++this.#uids}`, creationTimestamp: this.#time(), ...object.metadata };
    return this.#store(resource, { ...object, metadata } as FakeObject);
  }

  change(resource: CachedResource, name: string, change: (object: FakeObject) => object): FakeObject {
    return this.#store(resource, { ...this.find(resource, name), ...change(this.find(resource, name)) });
  }

  /** What a restore of etcd brings back: the object at the version it had. No watch tells of it. */
  restore(resource: CachedResource, name: string, resourceVersion: string, change: (object: FakeObject) => object): void {
    const now = this.find(resource, name);
    const then = { ...now, ...change(now) };
    this.#objects.set(idOf(resource, "shop", name), { ...then, metadata: { ...then.metadata, resourceVersion } });
  }

  remove(resource: CachedResource, name: string): void {
    const object = this.find(resource, name);
    this.#objects.delete(idOf(resource, "shop", name));
    this.log.push({
      type: "delete",
      resource,
      object: { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.rv) } },
    });
  }

  find(resource: CachedResource, name: string): FakeObject {
    const object = this.#objects.get(idOf(resource, "shop", name));
    if (!object) throw new Error(`no ${resource} ${name}`);
    return object;
  }

  async get(resource: Resource, namespace: string, name: string): Promise<KubeObject | undefined> {
    return this.#ask({ verb: "get", resource, name }, () => this.#objects.get(idOf(resource, namespace, name)));
  }

  async list(resource: Resource, namespace: string): Promise<KubeList> {
    return this.#ask({ verb: "list", resource, name: "" }, () => ({
      resourceVersion: String(this.rv),
      items: this.all(resource).filter(({ metadata }) => metadata.namespace === namespace),
    }));
  }

  async create({ resource, namespace, body }: CreateRequest): Promise<KubeObject> {
    const given = body as FakeObject;
    const { name } = given.metadata;
    return this.#ask({ verb: "create", resource, name, body }, () => {
      if (resource === "events") return given;
      if (this.#objects.has(idOf(resource, namespace, name))) throw refusal(409, "AlreadyExists", `${resource} "${name}" already exists`);
      const metadata = { ...given.metadata, namespace, uid: `uid-${++this.#uids}`, creationTimestamp: this.#time() };
      return this.#store(resource as CachedResource, { ...given, metadata, ...(resource === "pods" && { status: { phase: "Pending" } }) });
    });
  }

  async patch({ resource, subresource, namespace, name, type, body }: PatchRequest): Promise<KubeObject> {
    return this.#ask({ verb: "patch", resource, ...(subresource && { subresource }), name, body }, () => {
      const object = this.#existing({ resource, namespace, name });
      const patch = body as {
        metadata?: {
          uid?: string;
          resourceVersion?: string;
          ownerReferences?: readonly (OwnerReference & { $patch?: string })[];
          annotations?: Labels;
        };
        spec?: object;
        status?: object;
      };
      if (patch.metadata?.uid !== undefined && patch.metadata.uid !== object.metadata.uid)
        throw refusal(422, "Invalid", "Precondition failed: UID in precondition");
      if (patch.metadata?.resourceVersion !== undefined && patch.metadata.resourceVersion !== object.metadata.resourceVersion)
        throw refusal(409, "Conflict", "the object has been modified");
      if (type === "application/strategic-merge-patch+json") {
        const ownerReferences = mergedReferences(object.metadata.ownerReferences ?? [], patch.metadata?.ownerReferences ?? []);
        if (ownerReferences.filter(({ controller }) => controller === true).length > 1)
          throw refusal(422, "Invalid", "Only one reference can have Controller set to true");
        return this.#store(resource as CachedResource, { ...object, metadata: { ...object.metadata, ownerReferences } });
      }
      if (subresource !== "status") {
        const annotations = { ...object.metadata.annotations, ...patch.metadata?.annotations };
        return this.#store(resource as CachedResource, {
          ...object,
          metadata: { ...object.metadata, annotations },
          spec: { ...object.spec, ...patch.spec },
        });
      }
      const status = { ...object.status, ...patch.status };
      return this.#store(resource as CachedResource, {
        ...object,
        status: Object.fromEntries(Object.entries(status).filter(([, value]) => value !== null)),
      });
    });
  }

  async delete({ resource, namespace, name, preconditions }: DeleteRequest): Promise<KubeObject | undefined> {
    return this.#ask({ verb: "delete", resource, name, body: preconditions }, () => {
      const object = this.#existing({ resource, namespace, name });
      if (object.metadata.uid !== preconditions.uid) throw refusal(409, "Conflict", "the UID in the precondition does not match");
      const { resourceVersion = object.metadata.resourceVersion } = preconditions;
      if (object.metadata.resourceVersion !== resourceVersion)
        throw refusal(409, "Conflict", "the ResourceVersion in the precondition does not match");
      if (this.graceful)
        return this.#store(resource as CachedResource, { ...object, metadata: { ...object.metadata, deletionTimestamp: this.#time() } });
      this.remove(resource as CachedResource, name);
      return undefined;
    });
  }

  async replace(): Promise<KubeObject> {
    throw new Error("nobody here replaces");
  }

  async #ask<T>(call: Call, execute: () => T): Promise<T> {
    if (this.latencyMs > 0) await this.#clock.after(this.latencyMs);
    this.calls.push(call);
    const nth = this.calls.filter(
      ({ verb, resource, subresource }) => verb === call.verb && resource === call.resource && subresource === call.subresource,
    ).length;
    const answer = this.script(call, nth);
    if (answer instanceof Error) throw answer;
    if (answer === "never") throw new UnansweredError("no answer within 5s");
    const result = execute();
    if (answer === "lost") throw new UnansweredError("no answer within 5s");
    return result;
  }

  #existing({ resource, namespace, name }: Target): FakeObject {
    const object = this.#objects.get(idOf(resource, namespace, name));
    if (!object) throw refusal(404, "NotFound", `${resource} "${name}" not found`);
    return object;
  }

  #store(resource: CachedResource, object: FakeObject): FakeObject {
    const { apiVersion, kind } = RESOURCES[resource];
    const stored = { apiVersion, kind, ...object, metadata: { ...object.metadata, resourceVersion: String(++this.rv) } };
    this.#objects.set(idOf(resource, object.metadata.namespace, object.metadata.name), stored);
    this.log.push({ type: "put", resource, object: stored });
    return stored;
  }

  #time(): string {
    return new Date(this.#clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
  }
}

export function refusal(code: number, reason: string, message: string, causes: KubeApiError["causes"] = []): KubeApiError {
  return new KubeApiError({ code, reason, message, causes });
}

/** Refuses every create of a pod after the first `quota`. */
export function quota(limit: number): Script {
  let made = 0;
  return ({ verb, resource }) =>
    verb === "create" && resource === "pods" && ++made > limit ? refusal(403, "Forbidden", "exceeded quota") : undefined;
}

export interface ReplicaOptions {
  readonly name?: string;
  readonly uid?: string;
  readonly replicas?: number;
  readonly minReadySeconds?: number;
  readonly generation?: number;
  readonly deletionTimestamp?: string;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly status?: object;
  readonly templateLabels?: Labels;
}

/** A ReplicaSet of selector `app=web`. */
export function replicaSet({
  name = "web",
  uid,
  replicas = 1,
  minReadySeconds,
  generation = 1,
  deletionTimestamp,
  ownerReferences,
  status,
  templateLabels = { app: "web" },
}: ReplicaOptions = {}): Parameters<FakeApi["put"]>[1] {
  return {
    metadata: {
      name,
      generation,
      ...(uid !== undefined && { uid }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(ownerReferences && { ownerReferences }),
    },
    spec: {
      replicas,
      ...(minReadySeconds !== undefined && { minReadySeconds }),
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: templateLabels }, spec: { containers: [{ name: "c", image: "i" }] } },
    },
    ...(status && { status }),
  };
}

export interface PodOptions {
  readonly name: string;
  readonly labels?: Labels;
  /** The controller. */
  readonly owner?: { readonly kind?: string; readonly name?: string; readonly uid: string };
  readonly phase?: string;
  readonly readySince?: string;
  readonly nodeName?: string;
  readonly deletionTimestamp?: string;
}

/** A running, ready pod of `app=web`, an orphan unless it has an owner. */
export function pod({
  name,
  labels = { app: "web" },
  owner,
  phase = "Running",
  readySince,
  nodeName = "n1",
  deletionTimestamp,
}: PodOptions): Parameters<FakeApi["put"]>[1] {
  const { kind = "ReplicaSet", name: ownerName = "web" } = owner ?? {};
  return {
    metadata: {
      name,
      labels,
      ...(owner && {
        ownerReferences: [{ apiVersion: "apps/v1", kind, name: ownerName, uid: owner.uid, controller: true, blockOwnerDeletion: true }],
      }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: { nodeName },
    status: {
      phase,
      conditions: [
        {
          type: "Ready",
          status: phase === "Running" ? "True" : "False",
          ...(readySince !== undefined && { lastTransitionTime: readySince }),
        },
      ],
    },
  };
}

function mergedReferences(
  existing: readonly OwnerReference[],
  patch: readonly (OwnerReference & { readonly $patch?: string })[],
): readonly OwnerReference[] {
  const byUid = new Map(existing.map((reference) => [reference.uid, reference]));
  for (const { $patch, ...reference } of patch) {
    if ($patch === "delete") byUid.delete(reference.uid);
    else byUid.set(reference.uid, { ...byUid.get(reference.uid), ...reference });
  }
  return [...byUid.values()];
}

function idOf(resource: Resource, namespace: string, name: string): string {
  return `${resource} ${namespace}/${name}`;
}
