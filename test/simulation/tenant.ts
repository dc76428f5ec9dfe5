/**
 * A malicious tenant: it creates and changes pods and ReplicaSets in its own namespace, and knows the names
 * and uids of everything else. An accomplice also creates pods in the users' namespace with partly correct owner references.
 */
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import type { Random } from "../../shared/base/random.ts";
import type { Mirror } from "./mirror.ts";
import { MERGE, pod, replicaSet, SHOP } from "./users.ts";

/** The tenant's namespace. */
export const TENANT = "mallory";
/** Share of runs with a tenant. */
const SHARE = 0.4;
const PODS_MAX = 50;
const PARTIAL_MAX = 6;
const COSTS = ["-2147483648", "2147483647", "99999999999999999999", "+5", "1e9", "NaN", ""] as const;
const LETTERS = "x".repeat(63);

type Kind = "ReplicaSet" | "ReplicationController" | "Deployment";

interface Reference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller: true;
}

/** Drawn from a separate seed, so that runs without a tenant are unchanged. */
export function hasTenant(random: Random): boolean {
  return random.next() < SHARE;
}

export class Tenant {
  readonly #server: ApiServer;
  readonly #random: Random;
  readonly #mirror: Mirror;
  #names = 0;

  constructor(server: ApiServer, random: Random, mirror: Mirror) {
    this.#server = server;
    this.#random = random;
    this.#mirror = mirror;
  }

  async setUp(): Promise<void> {
    await this.#ask("POST", "/api/v1/namespaces", { metadata: { name: TENANT } });
    // Uses the names and selectors of the users' ReplicaSets.
    for (const name of ["a", "b"]) await this.#ask("POST", pathOf("replicasets"), replicaSet(name, this.#pick(["x", "y"]), this.#below(3)));
  }

  async act(): Promise<void> {
    const roll = this.#random.next();
    if (roll < 0.25) return this.#createPods();
    if (roll < 0.45) return this.#patchReference("pods", this.#reference(["ReplicaSet", "ReplicaSet", "ReplicationController"]));
    if (roll < 0.55) return this.#createReplicaSet();
    if (roll < 0.65) return this.#patchReference("replicasets", this.#reference(["Deployment"]));
    if (roll < 0.75) return this.#createNamesake();
    if (roll < 0.85) return this.#createPartial();
    const one = this.#anyOf(this.#own("pods"));
    if (one) await this.#ask("DELETE", `${pathOf("pods")}/${one.metadata.name}`, { gracePeriodSeconds: this.#chance(0.5) ? 0 : 30 });
  }

  /** Creates one pod or a flood of them, with labels, annotations and deletion costs. */
  async #createPods(): Promise<void> {
    const count = this.#chance(0.15) ? 15 : 1 + this.#below(3);
    for (let i = 0; i < count && this.#own("pods").length + i < PODS_MAX; i++) {
      const reference = this.#chance(0.7) ? this.#reference(["ReplicaSet", "ReplicaSet", "ReplicationController"]) : undefined;
      await this.#ask("POST", pathOf("pods"), this.#heavy(pod(`m-${++this.#names}`, this.#labels(), reference && [reference])));
    }
  }

  /** Creates a pod with the name of a user's pod; according to our caches, the create of the user's pod may still be in flight. */
  async #createNamesake(): Promise<void> {
    const one = this.#anyOf(this.#mirror.all("pods").filter(({ metadata }) => metadata.namespace === SHOP));
    const reference = one && controllerRef(one.metadata);
    if (!reference || this.#own("pods").length >= PODS_MAX) return;
    await this.#ask("POST", pathOf("pods"), this.#heavy(pod(one.metadata.name, one.metadata.labels ?? {}, [{ ...reference }])));
  }

  /** Creates a pod in the users' namespace whose owner reference has either the correct uid or the other correct fields, but not both. */
  async #createPartial(): Promise<void> {
    const partial = this.#mirror.all("pods").filter(({ metadata }) => metadata.name.startsWith(PARTIAL_PREFIX));
    const right = this.#reference(["ReplicaSet", "ReplicationController"]);
    if (!right || partial.length >= PARTIAL_MAX) return;
    const reference = this.#pick<object>([
      { ...right, name: `${right.name}2` },
      { ...right, kind: right.kind === "ReplicaSet" ? "ReplicationController" : "ReplicaSet" },
      { ...right, kind: "Rollout" },
      { ...right, uid: "00000000-0000-4000-8000-000000000000" },
    ]);
    await this.#ask(
      "POST",
      `/api/v1/namespaces/${SHOP}/pods`,
      this.#heavy(pod(`${PARTIAL_PREFIX}${++this.#names}`, this.#labels(), [reference])),
    );
  }

  async #createReplicaSet(): Promise<void> {
    if (this.#own("replicasets").length >= 5) return;
    const reference = this.#reference(["Deployment"]);
    const app = this.#pick(["m", "n"]);
    const name = `evil-${++this.#names}`;
    const body = { ...replicaSet(name, app, this.#below(4)), metadata: { name, ...(reference && { ownerReferences: [reference] }) } };
    await this.#ask("POST", pathOf("replicasets"), body);
  }

  async #patchReference(resource: "pods" | "replicasets", reference: Reference | undefined): Promise<void> {
    const one = this.#anyOf(this.#own(resource));
    if (one && reference)
      await this.#ask("PATCH", `${pathOf(resource)}/${one.metadata.name}`, { metadata: { ownerReferences: [reference] } }, MERGE);
  }

  /** An owner reference to a user's object, correct in everything but the namespace. */
  #reference(kinds: readonly [Kind, ...Kind[]]): Reference | undefined {
    const kind = this.#pick(kinds);
    const resource = ({ ReplicaSet: "replicasets", ReplicationController: "replicationcontrollers", Deployment: "deployments" } as const)[
      kind
    ];
    const owner = this.#anyOf(this.#mirror.all(resource).filter(({ metadata }) => metadata.namespace === SHOP));
    if (!owner) return undefined;
    const { name, uid } = owner.metadata;
    return { apiVersion: kind === "ReplicationController" ? "v1" : "apps/v1", kind, name, uid, controller: true };
  }

  #labels(): Readonly<Record<string, string>> {
    const app = this.#pick(["x", "y", "r", "d", "m"]);
    if (this.#chance(0.8)) return { app };
    return { app, ...Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`flood-${i}`, LETTERS])) };
  }

  #heavy(body: PodBody): object {
    const annotations = {
      ...(this.#chance(0.6) && { "controller.kubernetes.io/pod-deletion-cost": this.#pick(COSTS) }),
      ...(this.#chance(0.1) && { flood: "y".repeat(20_000) }),
    };
    return { ...body, metadata: { ...body.metadata, annotations } };
  }

  #own(resource: "pods" | "replicasets"): readonly KubeObject[] {
    return this.#mirror.all(resource).filter(({ metadata }) => metadata.namespace === TENANT);
  }

  async #ask(method: string, path: string, body?: object, contentType = "application/json"): Promise<void> {
    await this.#server.request({
      method,
      path,
      headers: { "user-agent": "tenant", "content-type": contentType },
      ...(body && { body: JSON.stringify(body) }),
    });
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

const PARTIAL_PREFIX = "partial-";

type PodBody = ReturnType<typeof pod>;

function pathOf(resource: "pods" | "replicasets"): string {
  return `${resource === "pods" ? "/api/v1" : "/apis/apps/v1"}/namespaces/${TENANT}/${resource}`;
}
