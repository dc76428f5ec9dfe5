/** One API server with its own clock, the people and nodes around it, and the door through which the tested controllers write. */
import { createVirtualClock } from "../../../shared/adapters/memory/clock.ts";
import type { VirtualClock } from "../../../shared/adapters/memory/clock.ts";
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import type { JsonObject } from "../../../shared/api/json.ts";
import type { CachedResource } from "../../../shared/api/resources.ts";
import { formatTime } from "../../../shared/api/time.ts";
import type { KubeObject } from "../../../shared/api/wire.ts";
import { createApiServer } from "../../../shared/local/api-server/api-server.ts";
import type { ApiResponse, ApiServer } from "../../../shared/local/api-server/api-server.ts";
import type { ApiRequest } from "../../../shared/local/api-server/rest/request-info.ts";
import { collection, NAMESPACE, refusalOf, storageId } from "../cluster.ts";
import type { Fields, Json } from "../cluster.ts";
import type { Act } from "./script.ts";

/** Never a whole second, as in cluster.ts. */
export const START_MS = Date.parse("2026-03-01T10:00:00.001Z");
const NODES = ["n1", "n2", "n3"] as const;
const STRAY = "stray";
const VERBS: Readonly<Record<string, string>> = { POST: "create", PUT: "change", PATCH: "change", DELETE: "delete" };

/** A request of the tested side's that changed something, or was refused. */
export interface Line {
  /** Since the beginning. */
  readonly atMs: number;
  readonly kind: "write" | "status" | "refused";
  /** Of which object; of pods none, for their names are chance. */
  readonly object: string;
  readonly text: string;
}

type PodNow = KubeObject & { readonly spec: Fields; readonly status: Fields };
type Refusing = Extract<Act, { kind: "refuse" }>;

export class World {
  readonly clock: VirtualClock = createVirtualClock(START_MS);
  readonly server: ApiServer;
  readonly lines: Line[] = [];
  /** In force, and how many requests it has let pass and refused. */
  #refusing: { readonly what: Refusing; passed: number; refused: number } | undefined;
  #made = 0;

  private constructor() {
    this.server = createApiServer({ clock: this.clock, random: createSeededRandom(1), garbageCollection: false });
  }

  static async create(begin: readonly { readonly resource: CachedResource; readonly body: object }[]): Promise<World> {
    const world = new World();
    await world.#person("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    for (const { resource, body } of begin) await world.#person("POST", collection(resource), body);
    return world;
  }

  get nowMs(): number {
    return this.clock.now() - START_MS;
  }

  /** A request of the tested controllers'. */
  async request(request: ApiRequest): Promise<ApiResponse> {
    const verb = VERBS[request.method];
    if (verb === undefined) return await this.server.request(request);
    const [, , resource = "", name = "", subresource] =
      /\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(request.path) ?? [];
    if (resource === "events") {
      const body = (typeof request.body === "string" ? JSON.parse(request.body) : request.body) as JsonObject; // what a client sent
      return { kind: "object", status: 201, headers: {}, body };
    }
    const target = subresource === undefined ? resource : `${resource}/${subresource}`;
    const before = name === "" ? undefined : (this.server.peek(storageId(resource), NAMESPACE, name) as Fields | undefined); // JSON
    const refusal = this.#refusalOf(verb, target);
    const answer = refusal ?? (await this.server.request(request));
    const after = answer.kind === "object" ? (answer.body as Fields) : {}; // JSON
    const object = resource === "pods" ? "pods" : `${resource} ${name}`;
    const note = (kind: Line["kind"], text: string): void => void this.lines.push({ atMs: this.nowMs, kind, object, text });
    if (answer.status >= 400) {
      // A conflict that nobody ordered is a race of the tested one with itself or with people, and tried again.
      if (refusal !== undefined) note("refused", `${verb} ${target} ${answer.status}`);
    } else if (subresource === "status") {
      if (timeless(before?.["status"]) !== timeless(after["status"])) note("status", timeless(after["status"]));
    } else if (verb === "create") note("write", `create ${target} ${labelsOf(after)}`);
    else if (verb === "delete") note("write", `delete ${target} ${resource === "pods" ? rankOf(before ?? {}) : name}`);
    else {
      const changed = changesOf(before ?? {}, after);
      if (changed !== "") note("write", `change ${target} ${changed}`);
    }
    return answer;
  }

  #refusalOf(verb: string, target: string): ApiResponse | undefined {
    const now = this.#refusing;
    if (now === undefined || now.what.verb !== verb || now.what.resource !== target) return undefined;
    if (now.passed < now.what.skip) return void now.passed++;
    if (now.refused >= now.what.times) return undefined;
    now.refused++;
    return refusalOf(now.what.refusal);
  }

  async act(act: Act): Promise<void> {
    const alive = async (): Promise<readonly PodNow[]> =>
      (await this.pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined && metadata.labels?.["app"] === "web");
    const among = async (count: number, which: (pod: PodNow) => boolean): Promise<readonly PodNow[]> =>
      (await alive()).filter(which).slice(0, count);
    switch (act.kind) {
      case "spec":
        return this.#merge(act.resource, act.name, { spec: act.change });
      case "ready":
        for (const pod of await among(act.count, (each) => !isReady(each) && phaseOf(each) !== "Failed")) {
          if (pod.spec["nodeName"] === undefined) await this.#bind(pod);
          await this.#setStatus(pod, "Running", true);
        }
        return;
      case "unready":
        for (const pod of await among(act.count, isReady)) await this.#setStatus(pod, "Running", false);
        return;
      case "fail":
        for (const pod of await among(act.count, isReady)) await this.#setStatus(pod, "Failed", false);
        return;
      case "remove":
        for (const pod of await among(act.count, isReady)) await this.#delete(pod, 0);
        return;
      case "terminate":
        for (const pod of await among(act.count, isReady)) await this.#delete(pod, 30);
        return;
      case "reap":
        for (const pod of await this.pods()) if (pod.metadata.deletionTimestamp !== undefined) await this.#delete(pod, 0);
        return;
      case "release":
        for (const { metadata } of await among(act.count, isReady))
          await this.#merge("pods", metadata.name, { metadata: { labels: { app: "other" } } });
        return;
      case "stray": {
        const metadata = { name: `stray-${++this.#made}`, labels: { app: STRAY } };
        const pod = await this.#person("POST", collection("pods"), { metadata, spec: { containers: [{ name: "c", image: "stray" }] } });
        await this.#bind(pod as unknown as PodNow); // what was created
        return await this.#setStatus(pod as unknown as PodNow, "Running", true); // the same
      }
      case "match":
        for (const { metadata } of (await this.pods()).filter((pod) => pod.metadata.labels?.["app"] === STRAY))
          await this.#merge("pods", metadata.name, { metadata: { labels: { app: "web" } } });
        return;
      case "refuse":
        this.#refusing = { what: act, passed: 0, refused: 0 };
        return;
      case "heal":
        this.#refusing = undefined;
        return;
      default:
        act satisfies never;
    }
  }

  /** The order is of what can be told apart, then of age: equal on both sides but for which of equals is which. */
  async pods(): Promise<readonly PodNow[]> {
    const items = (await this.#person("GET", collection("pods")))["items"] as unknown as readonly PodNow[]; // a list
    const byAge = items.toSorted((a, b) => createdAt(a).localeCompare(createdAt(b)));
    const nodes = nodesOf(items);
    const orderOf = (pod: PodNow): string =>
      [phaseOf(pod), readySince(pod), nodes.get(String(pod.spec["nodeName"])) ?? "", ownerOf(pod)].join(" ");
    return byAge.toSorted((a, b) => orderOf(a).localeCompare(orderOf(b)));
  }

  /** What stands there, in words that both sides share. */
  async state(resources: readonly CachedResource[]): Promise<readonly string[]> {
    const owners = [];
    for (const resource of resources)
      for (const { metadata, spec, status } of (await this.#person("GET", collection(resource)))[
        "items"
      ] as unknown as readonly (KubeObject & {
        readonly spec: Fields;
        readonly status: Fields;
      })[])
        owners.push(`${resource} ${metadata.name} ${JSON.stringify(spec["replicas"])} ${timeless(status)}`); // a list
    const pods = (await this.pods()).map((pod) => `pod ${rankOf(pod as unknown as Fields)} ${ownerOf(pod)}`);
    return [...owners, ...pods.toSorted()];
  }

  async #bind({ metadata }: PodNow): Promise<void> {
    const nodes = nodesOf(await this.pods());
    const [name] = NODES.toSorted((a, b) => (nodes.get(a) ?? "").localeCompare(nodes.get(b) ?? ""));
    await this.#person("POST", `${collection("pods")}/${metadata.name}/binding`, { target: { kind: "Node", name } });
  }

  async #setStatus({ metadata }: PodNow, phase: string, ready: boolean): Promise<void> {
    const condition = { type: "Ready", status: ready ? "True" : "False", lastTransitionTime: formatTime(this.clock.now()) };
    await this.#merge("pods", `${metadata.name}/status`, { status: { phase, conditions: [condition] } });
  }

  async #delete({ metadata }: PodNow, gracePeriodSeconds: number): Promise<void> {
    await this.#person("DELETE", `${collection("pods")}/${metadata.name}`, { gracePeriodSeconds });
  }

  async #merge(resource: CachedResource, name: string, body: object): Promise<void> {
    await this.#person("PATCH", `${collection(resource)}/${name}`, body, "application/merge-patch+json");
  }

  /** @throws {Error} if it is refused */
  async #person(method: string, path: string, body?: object, contentType = "application/json"): Promise<Fields> {
    const headers = { "user-agent": "person", "content-type": contentType };
    const answer = await this.server.request({ method, path, headers, ...(body && { body: JSON.stringify(body) }) });
    if (answer.kind !== "object" || answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body as Fields; // JSON
  }
}

function createdAt({ metadata }: PodNow): string {
  return metadata.creationTimestamp ?? "";
}

function phaseOf({ status }: PodNow): string {
  return String(status["phase"]);
}

function readySince({ status }: { readonly status: Fields }): string {
  const ready = ((status["conditions"] ?? []) as readonly Fields[]).find(({ type }) => type === "Ready"); // a pod's
  return ready?.["status"] === "True" ? String(ready["lastTransitionTime"]) : "not";
}

function isReady(pod: PodNow): boolean {
  return readySince(pod) !== "not" && phaseOf(pod) === "Running";
}

/** Nodes in words that both sides share: which of equal ones has the pods that are left is chance. */
function nodesOf(pods: readonly PodNow[]): ReadonlyMap<string, string> {
  const active = pods.filter(({ metadata, status }) => metadata.deletionTimestamp === undefined && status["phase"] !== "Failed");
  return new Map(
    NODES.map((node) => {
      const here = active.filter(({ spec }) => spec["nodeName"] === node).map(readySince);
      return [node, [here.length, ...here.toSorted()].join(" ")];
    }),
  );
}

/**
 * By what pods are ranked, but for times: within an order of magnitude of age it is the uid that counts.
 * Source: controller_utils.go logarithmicRankDiff.
 */
function rankOf(pod: Fields): string {
  const { spec, status, metadata } = pod as { readonly spec: Fields; readonly status: Fields; readonly metadata: Fields }; // a pod's
  const node = spec["nodeName"] === undefined ? "no node" : "node";
  const ready = readySince({ status }) === "not" ? "not ready" : "ready";
  const isGoing = metadata["deletionTimestamp"] === undefined ? "" : " terminating";
  return `<${String(status["phase"])}, ${node}, ${ready}${isGoing}> ${labelsOf(pod)}`;
}

function ownerOf({ metadata }: { readonly metadata: { readonly ownerReferences?: readonly { readonly name: string }[] } }): string {
  return metadata.ownerReferences?.map(({ name }) => name).join() ?? "nobody's";
}

function labelsOf({ metadata }: Fields): string {
  return JSON.stringify((metadata as Fields)["labels"] ?? {}); // an object's
}

/** Fields that differ, of what a controller changes beside status. */
function changesOf(before: Fields, after: Fields): string {
  const parts = (object: Fields): Fields => {
    const { ownerReferences, labels, annotations } = object["metadata"] as Fields; // an object's
    const owners = ((ownerReferences ?? []) as readonly Fields[]).map(({ kind, name, controller }) => [kind, name, controller] as Json[]); // an object's
    return { owners: owners as Json, labels: labels ?? {}, annotations: annotations ?? {}, spec: object["spec"] ?? {} };
  };
  const [was, is] = [parts(before), parts(after)];
  return Object.keys(was)
    .filter((part) => JSON.stringify(was[part]) !== JSON.stringify(is[part]))
    .map(
      (part) =>
        `${part} ${part === "spec" ? replicasOf(was[part]) : JSON.stringify(was[part])} -> ${part === "spec" ? replicasOf(is[part]) : JSON.stringify(is[part])}`,
    )
    .join(", ");
}

function replicasOf(spec: Json | undefined): string {
  return `replicas ${JSON.stringify((spec as Fields)["replicas"])}`; // a ReplicaSet's or Deployment's
}

/** A status without the times of its conditions. */
function timeless(value: Json | undefined): string {
  return JSON.stringify(value ?? {}, (field, part: unknown) =>
    field === "lastTransitionTime" || field === "lastUpdateTime"
      ? undefined
      : isObject(part)
        ? Object.fromEntries(Object.entries(part).toSorted())
        : part,
  );
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
