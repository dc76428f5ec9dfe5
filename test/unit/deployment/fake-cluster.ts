/**
 * An API server, a cache and a run, as small as a sync needs them: whole objects on the one side, stripped rows on the other,
 * which may lag behind. It records every request, and lets a test refuse one.
 */
import { createDigester } from "../../../shared/api/digest.ts";
import { deepFreeze } from "../../../shared/api/freeze.ts";
import { ownerOfCached, primaryAsOwner } from "../../../shared/api/owner-id.ts";
import { type CachedResource, objectKey, type Resource } from "../../../shared/api/resources.ts";
import { strip } from "../../../shared/api/strip.ts";
import type { KubeObject, Labels } from "../../../shared/api/wire.ts";
import type { Run, SyncPorts, SyncResult, TraceLine } from "../../../shared/controller/run.ts";
import { createSession } from "../../../shared/controller/session.ts";
import { syncDeployment } from "../../../shared/deployment/sync.ts";
import { KubeApiError } from "../../../shared/ports/errors.ts";
import type { Row } from "../../../shared/ports/store.ts";
import { NOW_MS } from "./builders.ts";

/** A JSON object whose parts are looked at one by one. */
export interface Json {
  [key: string]: unknown;
}
export interface Live extends KubeObject {
  readonly spec?: Json;
  readonly status?: Json;
}

export interface Recorded {
  readonly verb: "get" | "list" | "create" | "patch" | "delete";
  readonly resource: Resource;
  readonly name: string;
  readonly subresource?: "status";
  readonly body?: Json;
}

const DIGESTER = createDigester("test key");
const KINDS = ["deployments", "replicasets", "pods"] as const;

export class FakeCluster {
  readonly requests: Recorded[] = [];
  readonly events: string[] = [];
  readonly logged: string[] = [];
  readonly traced: TraceLine[] = [];
  nowMs = NOW_MS;
  mode: "act" | "shadow" = "act";
  /** Answers instead of the server when it returns an error. */
  refuse: (request: Recorded) => Error | undefined = () => undefined;
  /** Called before a request is carried out: somebody else may do something first. */
  before: (request: Recorded) => void = () => undefined;
  /** What stood there after each write of ours, in order. */
  readonly answers: Live[] = [];
  readonly #namespace: string;
  readonly #live = new Map<string, Live>();
  readonly #cached = new Map<string, Row>();
  #resourceVersion = 1_000_000;
  #uids = 0;

  constructor(objects: readonly Live[], namespace = "shop") {
    this.#namespace = namespace;
    for (const object of objects) this.put(object);
    this.catchUp();
  }

  /** Puts an object as it is. The cache learns of it with `catchUp`. */
  put(object: Live): void {
    this.#live.set(this.#id(resourceOf(object), object.metadata.name), deepFreeze(object));
  }

  /** Changes an object the way somebody else would. */
  change(resource: CachedResource, name: string, change: (object: Live) => Live): void {
    const object = this.live(resource, name);
    const changed = change(object);
    const generation = (object.metadata.generation ?? 0) + (JSON.stringify(object.spec) === JSON.stringify(changed.spec) ? 0 : 1);
    this.put({ ...changed, metadata: { ...changed.metadata, generation, resourceVersion: this.#nextVersion() } });
  }

  remove(resource: CachedResource, name: string): void {
    this.#live.delete(this.#id(resource, name));
  }

  /** The cache sees everything. */
  catchUp(): void {
    this.#cached.clear();
    for (const object of this.#live.values()) this.#cache(object);
  }

  live(resource: CachedResource, name: string): Live {
    const object = this.#live.get(this.#id(resource, name));
    if (object === undefined) throw new Error(`no ${resource} ${name}`);
    return object;
  }

  names(resource: CachedResource): readonly string[] {
    return this.#all(resource).map(({ metadata }) => metadata.name);
  }

  /** ReplicaSets with their sizes. */
  sizes(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.#all("replicasets").map(({ metadata, spec }) => [metadata.name, spec?.["replicas"]]));
  }

  /** What was asked of the server since the last call: `patch replicasets web-1`, without Events. */
  spoken(): readonly string[] {
    return this.requests
      .splice(0)
      .map(({ verb, resource, name, subresource }) =>
        `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`} ${name}`.trimEnd(),
      );
  }

  written(): readonly string[] {
    return this.spoken().filter((line) => !line.startsWith("get ") && !line.startsWith("list "));
  }

  /** ReplicaSet controllers bring every pod they should have; `available` may hold some back. */
  settle(available: (rs: Live) => number = (rs) => Number(rs.spec?.["replicas"] ?? 0)): void {
    for (const rs of this.#all("replicasets")) {
      const replicas = Number(rs.spec?.["replicas"] ?? 0);
      const count = available(rs);
      const status = {
        replicas,
        readyReplicas: count,
        availableReplicas: count,
        terminatingReplicas: 0,
        observedGeneration: rs.metadata.generation ?? 1,
      };
      if (JSON.stringify(rs.status) !== JSON.stringify(status))
        this.put({ ...rs, status, metadata: { ...rs.metadata, resourceVersion: this.#nextVersion() } });
    }
    this.catchUp();
  }

  sync(name = "web"): Promise<SyncResult> {
    return syncDeployment(createSession(this.ports(), this.run(name)));
  }

  run(name: string): Run {
    const key = objectKey(this.#namespace, name);
    const primary = this.#cached.get(this.#id("deployments", name));
    const rss = [...this.#cached.values()].filter((row) => this.#cached.get(this.#id("replicasets", this.#nameOf(row.key))) === row);
    return {
      epoch: "e1",
      controller: "deployment",
      key,
      token: "t1",
      mayWrite: () => true,
      snapshot: {
        ...(primary === undefined ? {} : { primary }),
        dependents: rss.filter(
          ({ owner }) => owner !== undefined && owner === (primary && primaryAsOwner("deployment", primary.key, primary.uid)),
        ),
        orphans: rss.filter(({ owner }) => owner === undefined),
        intents: [],
        failures: 0,
      },
    };
  }

  ports(): SyncPorts {
    return {
      clock: { now: () => this.nowMs, after: () => Promise.resolve() },
      digester: DIGESTER,
      doorbells: { ring: () => Promise.resolve() },
      registry: [],
      log: {
        debug: () => undefined,
        info: (message) => void this.logged.push(message),
        warn: (message) => void this.logged.push(message),
        error: (message) => void this.logged.push(message),
      },
      trace: (line) => void this.traced.push(line),
      reader: {
        get: async (resource, _namespace, name) => {
          this.#record({ verb: "get", resource, name });
          return this.#live.get(this.#id(resource, name));
        },
        list: async (resource, _namespace, options) => {
          this.#record({ verb: "list", resource, name: "" });
          return {
            resourceVersion: String(this.#resourceVersion),
            items: this.#all(resource).filter((object) => selected(object, options?.labelSelector)),
          };
        },
      },
      gateway: {
        mode: this.mode,
        forRun: () => ({
          create: async ({ resource, body }) => {
            if (resource === "events") {
              this.events.push(`${(body as Json)["reason"] as string}: ${(body as Json)["message"] as string}`);
              return { kind: "stored", object: undefined };
            }
            return { kind: "stored", object: this.#create(resource, body as Live) };
          },
          patch: async ({ resource, name, subresource, body }) => ({
            kind: "stored",
            object: this.#patch(resource, name, subresource, body as Json),
          }),
          delete: async ({ resource, name, preconditions }) => {
            this.#record({ verb: "delete", resource, name });
            const object = this.#existing(resource, name);
            if (object.metadata.uid !== preconditions.uid || object.metadata.resourceVersion !== preconditions.resourceVersion)
              throw conflict(resource, name);
            this.#live.delete(this.#id(resource, name));
            return { kind: "stored", object: undefined };
          },
        }),
      },
      store: {
        readIndex: async () => ({ rows: [], primaries: [], counts: [] }),
        readSlices: async (slices) => slices.map((slice) => this.#cachedPods("owner" in slice ? slice.owner : undefined)),
        registerIntents: async () => "ok",
        writeThrough: async (_run, { resource, items }) => {
          for (const { key } of items) {
            const object = this.#live.get(this.#id(resource, this.#nameOf(key)));
            if (object !== undefined) this.#cache(object);
          }
          return { kind: "ok", bells: [], outcomes: items.map(() => "changed") };
        },
      },
    };
  }

  #create(resource: Resource, body: Live): KubeObject {
    this.#record({ verb: "create", resource, name: body.metadata.name, body: body as unknown as Json });
    if (this.#live.has(this.#id(resource, body.metadata.name))) {
      throw new KubeApiError({ code: 409, reason: "AlreadyExists", message: `${resource}.apps "${body.metadata.name}" already exists` });
    }
    const metadata = {
      ...body.metadata,
      namespace: this.#namespace,
      uid: `uid-created-${++this.#uids}`,
      resourceVersion: this.#nextVersion(),
      generation: 1,
      creationTimestamp: new Date(this.nowMs).toISOString().replace(/\.\d+Z/, "Z"),
    };
    const object = { ...body, metadata, status: { replicas: 0 } } as Live;
    this.put(object);
    this.answers.push(object);
    return this.live(resource as CachedResource, body.metadata.name);
  }

  #patch(resource: Resource, name: string, subresource: "status" | undefined, body: Json): KubeObject {
    this.#record({ verb: "patch", resource, name, body, ...(subresource === undefined ? {} : { subresource }) });
    const object = this.#existing(resource, name);
    const { uid, resourceVersion, ownerReferences, annotations } = body["metadata"] as {
      uid: string;
      resourceVersion?: string;
      ownerReferences?: readonly Json[];
      annotations?: Labels;
    };
    if (uid !== object.metadata.uid) throw new KubeApiError({ code: 422, reason: "Invalid", message: "uid differs" });
    if (resourceVersion !== undefined && resourceVersion !== object.metadata.resourceVersion) throw conflict(resource, name);
    const spec = { ...object.spec, ...(body["spec"] as Json | undefined) };
    const changed = JSON.stringify(spec) !== JSON.stringify(object.spec ?? {});
    const [reference] = ownerReferences ?? [];
    const others = (object.metadata.ownerReferences ?? []).filter((each) => each.uid !== reference?.["uid"]);
    const next = {
      ...object,
      metadata: {
        ...object.metadata,
        resourceVersion: this.#nextVersion(),
        generation: (object.metadata.generation ?? 1) + (changed && subresource === undefined ? 1 : 0),
        ...(annotations === undefined ? {} : { annotations: { ...object.metadata.annotations, ...annotations } }),
        ...(reference === undefined ? {} : { ownerReferences: "$patch" in reference ? others : [...others, reference] }),
      },
      ...(subresource === undefined ? { spec } : {}),
      ...(subresource === "status" ? { status: stored({ ...object.status, ...(body["status"] as Json) }) } : {}),
    } as Live;
    this.put(next);
    this.answers.push(next);
    return next;
  }

  #record(request: Recorded): void {
    this.before(request);
    this.requests.push(deepFreeze(request));
    const refusal = this.refuse(request);
    if (refusal !== undefined) throw refusal;
  }

  #existing(resource: Resource, name: string): Live {
    const object = this.#live.get(this.#id(resource, name));
    if (object === undefined) throw new KubeApiError({ code: 404, reason: "NotFound", message: `${resource} "${name}" not found` });
    return object;
  }

  #all(resource: Resource): readonly Live[] {
    return [...this.#live].filter(([id]) => id.startsWith(`${resource} `)).map(([, object]) => object);
  }

  #cachedPods(owner: string | undefined): readonly Row[] {
    return [...this.#cached].filter(([id, row]) => id.startsWith("pods ") && row.owner === owner).map(([, row]) => row);
  }

  #cache(object: Live): void {
    const resource = resourceOf(object);
    const cached = deepFreeze(strip(resource, object, DIGESTER));
    const owner = ownerOfCached(resource, cached);
    const { name, uid, resourceVersion: rv } = object.metadata;
    this.#cached.set(this.#id(resource, name), {
      key: objectKey(this.#namespace, name),
      uid,
      rv,
      gone: false,
      object: cached,
      ...(owner === undefined ? {} : { owner }),
    });
  }

  #id(resource: Resource, name: string): string {
    return `${resource} ${name}`;
  }

  #nameOf(key: string): string {
    return key.slice(this.#namespace.length + 1);
  }

  #nextVersion(): string {
    return String(++this.#resourceVersion);
  }
}

function conflict(resource: string, name: string): KubeApiError {
  return new KubeApiError({ code: 409, reason: "Conflict", message: `Operation cannot be fulfilled on ${resource}.apps "${name}"` });
}

/** As the server keeps it: no nulls, no plain zeros. */
function stored(status: Json): Json {
  return Object.fromEntries(
    Object.entries(status).filter(
      ([key, value]) => value !== null && (value !== 0 || key === "terminatingReplicas" || key === "collisionCount"),
    ),
  );
}

function resourceOf({ kind }: Live): (typeof KINDS)[number] {
  return kind === "Deployment" ? "deployments" : kind === "ReplicaSet" ? "replicasets" : "pods";
}

function selected({ metadata }: Live, selector: string | undefined): boolean {
  return (selector ?? "").split(",").every((term) => term === "" || metadata.labels?.[term.split("=")[0] ?? ""] === term.split("=")[1]);
}

export interface LiveDeploymentOptions {
  readonly image?: string;
  readonly strategy?: string;
  readonly surge?: number | string;
  readonly unavailable?: number | string;
  readonly annotations?: Labels;
  readonly deletionTimestamp?: string;
  readonly generation?: number;
  readonly status?: Json;
  readonly spec?: Json;
}

export function podTemplate(image: string, labels: Labels = { app: "web" }): Json {
  return { metadata: { labels }, spec: { containers: [{ name: "app", image }] } };
}

/** `web`: R replicas, RollingUpdate with surge and unavailable 1, no deadline. */
export function liveDeployment(
  replicas: number,
  {
    image = "v1",
    strategy = "RollingUpdate",
    surge = 1,
    unavailable = 1,
    annotations,
    deletionTimestamp,
    generation = 1,
    status,
    spec,
  }: LiveDeploymentOptions = {},
  name = "web",
): Live {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "100",
      generation,
      creationTimestamp: "2026-03-01T09:00:00Z",
      labels: { app: "web" },
      ...(annotations === undefined ? {} : { annotations }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: {
      replicas,
      selector: { matchLabels: { app: "web" } },
      template: podTemplate(image),
      strategy:
        strategy === "RollingUpdate"
          ? { type: strategy, rollingUpdate: { maxSurge: surge, maxUnavailable: unavailable } }
          : { type: strategy },
      ...spec,
    },
    status: status ?? {},
  };
}

export interface LiveReplicaSetOptions {
  readonly available?: number;
  readonly revision?: string;
  readonly sizedFor?: readonly [desired: number, max: number];
  readonly owner?: string | null;
  readonly age?: number;
  readonly labels?: Labels;
  readonly status?: Json;
  readonly minReadySeconds?: number;
}

export function liveReplicaSet(
  name: string,
  image: string,
  size: number,
  {
    available = size,
    revision,
    sizedFor,
    owner = "web",
    age = 0,
    labels = { app: "web" },
    status,
    minReadySeconds,
  }: LiveReplicaSetOptions = {},
): Live {
  const annotations = {
    ...(revision === undefined ? {} : { "deployment.kubernetes.io/revision": revision }),
    ...(sizedFor === undefined
      ? {}
      : { "deployment.kubernetes.io/desired-replicas": String(sizedFor[0]), "deployment.kubernetes.io/max-replicas": String(sizedFor[1]) }),
  };
  const reference = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name: owner ?? "",
    uid: `uid-${owner}`,
    controller: true,
    blockOwnerDeletion: true,
  };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "50",
      generation: 1,
      creationTimestamp: new Date(Date.parse("2026-03-01T09:00:00Z") + age * 60_000).toISOString().replace(".000", ""),
      labels: { ...labels, "pod-template-hash": name },
      annotations,
      ...(owner === null ? {} : { ownerReferences: [reference] }),
    },
    spec: {
      replicas: size,
      selector: { matchLabels: { app: "web" } },
      template: podTemplate(image, { app: "web", "pod-template-hash": name }),
      ...(minReadySeconds === undefined ? {} : { minReadySeconds }),
    },
    status: status ?? {
      replicas: size,
      readyReplicas: available,
      availableReplicas: available,
      terminatingReplicas: 0,
      observedGeneration: 1,
    },
  };
}

export function livePod(name: string, rs: string, phase = "Running"): Live {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "10",
      labels: { app: "web" },
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: rs, uid: `uid-${rs}`, controller: true }],
    },
    status: { phase },
  };
}
