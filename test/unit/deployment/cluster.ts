/**
 * Deployments for syncs: the in-memory API server, and a cache that lags behind until it is told to catch up. Objects are given with
 * uids of the test's own; the server gives them others, which `uid` tells.
 */
import { CACHED_RESOURCES, RESOURCES } from "../../../shared/api/resources.ts";
import type { CachedResource } from "../../../shared/api/resources.ts";
import type { KubeObject, Labels } from "../../../shared/api/wire.ts";
import type { Snapshot } from "../../../shared/ports/store.ts";
import type { SyncResult } from "../../../shared/controller/run.ts";
import type { Call, Json, LiveObject, ScriptedApi } from "../../support/scripted-api.ts";
import { World } from "../../support/sync-world.ts";
import type { WorldOptions } from "../../support/sync-world.ts";

export type { Json } from "../../support/scripted-api.ts";

/** An object as a test or a capture has it. */
export interface Live extends KubeObject {
  readonly spec?: Json;
  readonly status?: Json;
}

export class Cluster {
  readonly world: World;
  readonly api: ScriptedApi;
  /** Of objects that were given with one. */
  readonly #uids = new Map<string, string>();
  #spoken = 0;

  private constructor(world: World) {
    this.world = world;
    this.api = world.api;
  }

  /** Stands there, and the cache knows it. Owners come first. */
  static async of(objects: readonly Live[], options: WorldOptions = {}): Promise<Cluster> {
    const cluster = new Cluster(await World.create({ controller: "deployment", ...options }));
    for (const object of objects) await cluster.put(object);
    await cluster.catchUp();
    return cluster;
  }

  /** Somebody creates it, as it is told, and whoever is responsible writes its status. The cache learns of it with `catchUp`. */
  async put({ kind, metadata, spec, status }: Live): Promise<void> {
    const { uid, resourceVersion: _version, namespace: _namespace, deletionTimestamp, ownerReferences, ...rest } = metadata;
    const put = await this.api.put(resourceOf(kind), {
      metadata: {
        ...rest,
        ...(ownerReferences && { ownerReferences: ownerReferences.map((each) => ({ ...each, uid: this.uid(each.uid) })) }),
      },
      ...(spec && { spec }),
      ...(status && { status }),
      deleting: deletionTimestamp !== undefined,
    });
    this.#uids.set(uid, put.metadata.uid);
  }

  /** The server's for a given one. */
  uid(given: string): string {
    return this.#uids.get(given) ?? given;
  }

  /** The object with its owners' given uids. */
  given<T extends KubeObject>(object: T): T {
    const { ownerReferences, ...metadata } = object.metadata;
    if (ownerReferences === undefined) return object;
    const names = new Map([...this.#uids].map(([given, uid]) => [uid, given]));
    return {
      ...object,
      metadata: { ...metadata, ownerReferences: ownerReferences.map((each) => ({ ...each, uid: names.get(each.uid) ?? each.uid })) },
    };
  }

  /** Changes an object the way somebody else would. */
  async change(resource: CachedResource, name: string, change: (object: LiveObject) => Live): Promise<void> {
    await this.api.change(resource, name, (object) => {
      const { metadata, spec, status } = change(object);
      return {
        ...(metadata !== object.metadata && { metadata }),
        ...(spec !== object.spec && spec && { spec }),
        ...(status !== object.status && status && { status }),
      };
    });
  }

  /** The cache sees everything. */
  catchUp(): Promise<void> {
    return this.world.stream();
  }

  live(resource: CachedResource, name: string): LiveObject {
    return this.api.find(resource, name);
  }

  names(resource: CachedResource): readonly string[] {
    return this.api.all(resource).map(({ metadata }) => metadata.name);
  }

  /** ReplicaSets with their sizes. */
  sizes(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.api.all("replicasets").map(({ metadata, spec }) => [metadata.name, spec?.["replicas"]]));
  }

  get requests(): readonly Call[] {
    return this.api.calls.filter(({ resource }) => resource !== "events");
  }

  /** Events that were sent, as `ScalingReplicaSet: Scaled up …`. */
  get events(): readonly string[] {
    return this.api.events.map((event) => event.replace(/^(?:Normal|Warning) (\w+) /, "$1: "));
  }

  /** What was asked of the server since the last call: `patch replicasets web-1`, without Events. */
  spoken(): readonly string[] {
    const requests = this.requests.slice(this.#spoken);
    this.#spoken += requests.length;
    return requests.map(({ verb, resource, name, subresource }) =>
      `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`} ${name}`.trimEnd(),
    );
  }

  written(): readonly string[] {
    return this.spoken().filter((line) => !line.startsWith("get ") && !line.startsWith("list "));
  }

  /** ReplicaSet controllers bring every pod they should have; `available` may hold some back. */
  async settle(available: (rs: LiveObject) => number = (rs) => Number(rs.spec?.["replicas"] ?? 0)): Promise<void> {
    for (const rs of this.api.all("replicasets")) {
      const count = available(rs);
      const status = {
        replicas: Number(rs.spec?.["replicas"] ?? 0),
        readyReplicas: count,
        availableReplicas: count,
        terminatingReplicas: 0,
        observedGeneration: rs.metadata.generation ?? 1,
      };
      await this.api.change("replicasets", rs.metadata.name, () => ({ status }));
    }
    await this.catchUp();
  }

  /** The cache believes in another spec than the server has: one that is refused today, or was never written. */
  async forge(resource: CachedResource, name: string, spec: Json): Promise<void> {
    const live = this.live(resource, name);
    this.world.forge(resource, { ...live, spec: { ...live.spec, ...spec } });
    await this.catchUp();
  }

  /** What a sync would see now. */
  snapshot(): Promise<Snapshot> {
    return this.world.snapshot();
  }

  sync(name = "web"): Promise<SyncResult> {
    return this.world.handle(`shop/${name}`);
  }
}

function resourceOf(kind: string | undefined): CachedResource {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === kind) ?? "pods";
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

/** Absent is 600 s; this is never. Source: pkg/controller/deployment/util/deployment_util.go, HasProgressDeadline. */
const NO_DEADLINE = 2 ** 31 - 1;

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
      progressDeadlineSeconds: NO_DEADLINE,
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
  /** Pods that it still has; absent: as many as it should. */
  readonly pods?: number;
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
    pods = size,
    available = pods,
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
      replicas: pods,
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
    spec: { nodeName: "n1", containers: [{ name: "app", image: "v1" }] },
    status: { phase },
  };
}
