/** User requests to a cluster, drawn from the seed: every kind of change that a controller must handle, some of them repeated. */
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import type { Random } from "../../shared/base/random.ts";
import type { Mirror, Objects } from "./mirror.ts";

export const SHOP = "shop";
const APPS = `/apis/apps/v1/namespaces/${SHOP}`;
const CORE = `/api/v1/namespaces/${SHOP}`;
export const MERGE = "application/merge-patch+json";

const MANY_LABELS = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`label-${i}`, "v".repeat(60)]));
/** Close to the API server's limit for all annotations, 256 KiB, and to etcd's for an object, 1.5 MiB. */
const [ANNOTATION_LENGTH, TEMPLATE_LENGTH] = [250_000, 1_000_000];

export interface UserHabits {
  /** Users do not change pods, so bounds on pods can be checked. */
  readonly calmPods: boolean;
  /** Sizes only grow. */
  readonly growOnly: boolean;
  /** A user deletes pods as soon as they appear. */
  readonly quickDeleter: boolean;
  readonly deployments: boolean;
}

export function drawHabits(random: Random): UserHabits {
  return {
    calmPods: random.next() < 0.35,
    growOnly: random.next() < 0.3,
    quickDeleter: random.next() < 0.3,
    deployments: random.next() < 0.75,
  };
}

export class Users {
  readonly #server: ApiServer;
  readonly #random: Random;
  readonly #mirror: Mirror;
  readonly #habits: UserHabits;
  #names = 0;

  constructor(server: ApiServer, random: Random, mirror: Mirror, habits: UserHabits) {
    this.#server = server;
    this.#random = random;
    this.#mirror = mirror;
    this.#habits = habits;
  }

  async #ask(method: string, path: string, body?: object, contentType = "application/json"): Promise<void> {
    await this.#server.request({
      method,
      path,
      headers: { "user-agent": "kubectl", "content-type": contentType },
      ...(body && { body: JSON.stringify(body) }),
    });
  }

  /** Creates objects that only their owners may change: they must stay unchanged. */
  async setUp(): Promise<void> {
    await this.#ask("POST", "/api/v1/namespaces", { metadata: { name: SHOP } });
    await this.#ask("POST", `${CORE}/pods`, pod("loner", { app: "elsewhere" }));
    // Has the labels of our pods, but its controller reference points to a kind that the API server does not serve, so the garbage
    // collector ignores it.
    const owner = { apiVersion: "example.com/v1", kind: "Database", name: "db", uid: "foreign-uid", controller: true };
    await this.#ask("POST", `${CORE}/pods`, pod("db-0", { app: "x" }, [owner]));
    await this.#ask("POST", `${APPS}/replicasets`, {
      ...replicaSet("foreign", "never", 0),
      metadata: { name: "foreign", labels: { app: "d" }, ownerReferences: [{ ...owner, kind: "Rollout" }] },
    });
    for (const name of ["a", "b"])
      if (this.#chance(0.7)) await this.#ask("POST", `${APPS}/replicasets`, replicaSet(name, this.#pick(["x", "y"]), 1 + this.#below(4)));
    if (this.#chance(0.5)) await this.#ask("POST", `${CORE}/replicationcontrollers`, replicationController("rc", 1 + this.#below(4)));
    if (this.#habits.deployments) await this.#createDeployment();
    for (let i = this.#below(4); i > 0; i--) await this.#ask("POST", `${CORE}/pods`, pod(`orphan-${i}`, { app: this.#pick(["x", "y"]) }));
  }

  async #createDeployment(): Promise<void> {
    await this.#ask("POST", `${APPS}/deployments`, this.#deployment(this.#pick(["d", "e"])));
  }

  #deployment(name: string): object {
    const strategy = this.#chance(0.4)
      ? { type: "Recreate" }
      : { type: "RollingUpdate", rollingUpdate: { maxSurge: this.#pick([1, 1, 2, "25%"]), maxUnavailable: this.#pick([0, 1, "25%"]) } };
    return {
      metadata: { name },
      spec: {
        replicas: 1 + this.#below(5),
        revisionHistoryLimit: this.#pick([0, 1, 10]),
        ...(this.#chance(0.3) && { minReadySeconds: 1 + this.#below(3) }),
        strategy,
        selector: { matchLabels: { app: name } },
        template: template({ app: name }, "v1"),
      },
    };
  }

  async act(): Promise<void> {
    const roll = this.#random.next();
    if (this.#habits.deployments && roll < 0.35) return this.#actOnDeployment();
    if (roll < 0.65) return this.#actOnReplicas();
    if (roll < 0.72) return this.#toggleQuota();
    if (!this.#habits.calmPods) await this.#actOnPods();
  }

  async #actOnDeployment(): Promise<void> {
    const all = this.#own("deployments");
    if (all.length < 2 && this.#chance(0.3)) return this.#createDeployment();
    const d = this.#anyOf(all);
    if (!d) return;
    const path = `${APPS}/deployments/${d.metadata.name}`;
    const roll = this.#random.next();
    const patch = (spec: object) => this.#ask("PATCH", path, { spec }, MERGE);
    if (roll < 0.4) {
      const image = `web:${this.#pick(["v1", "v2", "v3", "v4", "bad"])}`;
      const spec = { template: { spec: { containers: [{ name: "web", image }] } } };
      return this.#ask("PATCH", path, { spec }, "application/strategic-merge-patch+json");
    }
    if (roll < 0.65)
      return patch({ replicas: this.#habits.growOnly ? Math.min(8, (d.spec?.replicas ?? 0) + this.#below(3)) : this.#below(7) });
    if (roll < 0.78) return patch({ paused: d.spec?.paused !== true });
    if (roll < 0.84) return patch({ minReadySeconds: this.#below(4) });
    if (roll < 0.9)
      return patch({
        strategy:
          d.spec?.strategy?.type === "Recreate"
            ? { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
            : { type: "Recreate", rollingUpdate: null },
      });
    await this.#delete(path);
    if (this.#chance(0.7)) await this.#ask("POST", `${APPS}/deployments`, this.#deployment(d.metadata.name));
  }

  async #actOnReplicas(): Promise<void> {
    const isRc = this.#chance(0.25);
    const base = isRc ? `${CORE}/replicationcontrollers` : `${APPS}/replicasets`;
    const all = isRc
      ? this.#own("replicationcontrollers")
      : this.#own("replicasets").filter(({ metadata }) => ["a", "b"].includes(metadata.name));
    const missing = (isRc ? ["rc"] : ["a", "b"]).filter((name) => !all.some(({ metadata }) => metadata.name === name));
    const fresh = (name: string) =>
      isRc ? replicationController(name, this.#below(5)) : replicaSet(name, this.#pick(["x", "y"]), this.#below(5));
    const name = this.#anyOf(missing);
    if (name !== undefined && this.#chance(0.4)) return this.#ask("POST", base, fresh(name));
    const one = this.#anyOf(all);
    if (!one) return;
    const path = `${base}/${one.metadata.name}`;
    const size = one.spec?.replicas ?? 0;
    if (this.#chance(0.7))
      return this.#ask(
        "PATCH",
        path,
        { spec: { replicas: this.#habits.growOnly ? Math.min(6, size + this.#below(3)) : this.#below(7) } },
        MERGE,
      );
    if (this.#chance(0.3)) return this.#ask("PATCH", path, { metadata: { annotations: { touched: String(++this.#names) } } }, MERGE);
    if (this.#habits.growOnly) return;
    await this.#delete(path);
    if (this.#chance(0.6)) await this.#ask("POST", base, fresh(one.metadata.name));
  }

  #delete(path: string): Promise<void> {
    return this.#ask("DELETE", path, { propagationPolicy: this.#pick(["Background", "Background", "Orphan", "Foreground"]) });
  }

  async #actOnPods(): Promise<void> {
    const one = this.#anyOf(this.#own("pods").filter(({ metadata }) => !DECOYS.includes(metadata.name)));
    if (!one) return;
    const { name, uid } = one.metadata;
    const path = `${CORE}/pods/${name}`;
    const roll = this.#random.next();
    if (roll < 0.3) return this.#ask("PATCH", path, { metadata: { labels: { app: this.#pick(["x", "y", "z", "d", "r"]) } } }, MERGE);
    if (roll < 0.45) return this.#ask("PATCH", path, { metadata: { ownerReferences: null } }, MERGE);
    if (roll < 0.55) return this.#ask("PATCH", `${path}/status`, { status: { phase: this.#pick(["Failed", "Succeeded"]) } }, MERGE);
    const gracePeriodSeconds = this.#chance(0.5) ? 0 : 30;
    await this.#ask("DELETE", path, { gracePeriodSeconds, preconditions: { uid } });
    if (gracePeriodSeconds === 0 && this.#chance(0.3))
      await this.#ask("POST", `${CORE}/pods`, pod(name, { app: this.#pick(["x", "y", "z"]) }));
  }

  /** Gives a workload many labels, a long annotation, or a template of a MiB. */
  async grow(): Promise<void> {
    const resource = this.#pick(["deployments", "replicasets"] as const);
    // Users do not change a Deployment's ReplicaSets here.
    const one = this.#anyOf(this.#own(resource).filter(({ metadata }) => metadata.name.length === 1));
    if (!one) return;
    const path = `${APPS}/${resource}/${one.metadata.name}`;
    const roll = this.#random.next();
    if (roll < 0.3) return this.#ask("PATCH", path, { metadata: { labels: MANY_LABELS } }, MERGE);
    if (roll < 0.6) return this.#ask("PATCH", path, { metadata: { annotations: { long: "a".repeat(ANNOTATION_LENGTH) } } }, MERGE);
    const env = [{ name: "BIG", value: this.#pick(["v", "w"]).repeat(TEMPLATE_LENGTH) }];
    const spec = { template: { spec: { containers: [{ name: "web", env }] } } };
    return this.#ask("PATCH", path, { spec }, "application/strategic-merge-patch+json");
  }

  /** Deletes a pod that was just created. */
  async deleteFresh(): Promise<void> {
    if (this.#habits.calmPods || !this.#habits.quickDeleter) return;
    const one = this.#anyOf(
      this.#own("pods").filter(({ metadata, status }) => status?.phase === "Pending" && !DECOYS.includes(metadata.name)),
    );
    if (one) await this.#ask("DELETE", `${CORE}/pods/${one.metadata.name}`, { gracePeriodSeconds: this.#chance(0.7) ? 0 : 30 });
  }

  async #toggleQuota(): Promise<void> {
    if (this.#chance(0.5)) return this.liftQuota();
    const used = this.#own("pods").length;
    await this.#ask("POST", `${CORE}/resourcequotas`, {
      metadata: { name: "pods" },
      spec: { hard: { pods: String(used + this.#below(2)) } },
    });
  }

  liftQuota(): Promise<void> {
    return this.#ask("DELETE", `${CORE}/resourcequotas/pods`);
  }

  /** Called before the quiet phase; changes objects whose desired state can never be reached. */
  async settle(): Promise<void> {
    await this.liftQuota();
    for (const d of this.#own("deployments")) {
      const path = `${APPS}/deployments/${d.metadata.name}`;
      await this.#ask("PATCH", path, { spec: { paused: null } }, MERGE);
      const [container] = d.spec?.template.spec?.containers ?? [];
      const spec = { template: { spec: { containers: [{ name: "web", image: "web:v9" }] } } };
      if (container?.image === "web:bad") await this.#ask("PATCH", path, { spec }, "application/strategic-merge-patch+json");
    }
  }

  /** Objects in the users' namespace. */
  #own<R extends CachedResource>(resource: R): readonly (Objects[R] & KubeObject)[] {
    return this.#mirror.all(resource).filter(({ metadata }) => metadata.namespace === SHOP);
  }

  #chance(share: number): boolean {
    return this.#random.next() < share;
  }

  #below(max: number): number {
    return Math.floor(this.#random.next() * max);
  }

  #pick<T>(values: readonly [T, ...T[]]): T {
    return values[this.#below(values.length)] ?? values[0];
  }

  #anyOf<T>(values: readonly T[]): T | undefined {
    return values[this.#below(values.length)];
  }
}

/** Pods and ReplicaSets that none of deltaloop's controllers may change. */
export const DECOYS: readonly string[] = ["loner", "db-0", "foreign"];

function template(labels: Readonly<Record<string, string>>, version: string): object {
  return { metadata: { labels }, spec: { containers: [{ name: "web", image: `web:${version}` }] } };
}

export function pod(
  name: string,
  labels: Readonly<Record<string, string>>,
  ownerReferences?: readonly object[],
): { readonly metadata: object; readonly spec: object } {
  return {
    metadata: { name, labels, ...(ownerReferences && { ownerReferences }) },
    spec: { containers: [{ name: "web", image: "web:v1" }] },
  };
}

export function replicaSet(name: string, app: string, replicas: number): object {
  return { metadata: { name }, spec: { replicas, selector: { matchLabels: { app } }, template: template({ app }, "v1") } };
}

function replicationController(name: string, replicas: number): object {
  return { metadata: { name }, spec: { replicas, selector: { app: "r" }, template: template({ app: "r" }, "v1") } };
}
