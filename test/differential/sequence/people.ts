/** The users, nodes and other controllers in the tested controller's environment, which carry out the script. */
import type { VirtualClock } from "../../../shared/base/memory/clock.ts";
import { COMPARED_RELEASE } from "../release.ts";
import { podTemplateHash, podTemplateHashState } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import { formatTime } from "../../../shared/kube/objects/time.ts";
import type { KubeObject, PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";
import type { ApiServer } from "../../../shared/api-server/api-server.ts";
import { collection, type Fields } from "../shared-api-server.ts";
import type { Act } from "./script.ts";
import { createdAt, isReady, NODES, nodesOf, ownerOf, phaseOf, readySince, type PodNow } from "./words.ts";

const STRAY = "stray";

/** The actions that this class carries out; the scenario carries out the others. */
export type Deed = Exclude<Act, { readonly kind: "refuse" | "heal" | "blind" | "see" }>;

export class People {
  readonly #server: ApiServer;
  readonly #clock: VirtualClock;
  #made = 0;

  constructor(server: ApiServer, clock: VirtualClock) {
    this.#server = server;
    this.#clock = clock;
  }

  async act(act: Deed): Promise<void> {
    const alive = async (): Promise<readonly PodNow[]> =>
      (await this.pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined && metadata.labels?.["app"] === "web");
    const among = async (count: number, which: (pod: PodNow) => boolean): Promise<readonly PodNow[]> =>
      (await alive()).filter(which).slice(0, count);
    switch (act.kind) {
      case "spec":
        return this.#merge(act.resource, act.name, { spec: act.change });
      case "annotate":
        return this.#merge(act.resource, act.name, { metadata: { annotations: act.annotations } });
      case "touch":
        for (const { metadata } of await this.all(act.resource))
          await this.#merge(act.resource, metadata.name, { metadata: { annotations: { touched: act.note } } });
        return;
      case "create":
        return void (await this.ask("POST", collection(act.resource), act.body));
      case "collide":
        return this.#collide(act.name, act.change);
      case "orphan":
        return void (await this.ask("DELETE", `${collection(act.resource)}/${act.name}`, { propagationPolicy: "Orphan" }));
      case "orphaned":
        for (const { metadata } of await this.all("replicasets"))
          if (metadata.ownerReferences?.some(({ name }) => name === act.name) === true)
            await this.#merge("replicasets", metadata.name, { metadata: { ownerReferences: null } });
        return this.#merge(act.resource, act.name, { metadata: { finalizers: null } });
      case "discard": {
        const [newest] = (await this.all("replicasets")).toSorted((a, b) => orderOf(b).localeCompare(orderOf(a)));
        if (newest) await this.ask("DELETE", `${collection("replicasets")}/${newest.metadata.name}`, { propagationPolicy: "Background" });
        return;
      }
      case "snatch": {
        const newest = (await alive())
          .filter(({ spec }) => spec["nodeName"] === undefined)
          .toSorted((a, b) => createdAt(b).localeCompare(createdAt(a)))[0];
        return newest && this.#delete(newest, 0);
      }
      case "litter": {
        const owners = new Set((await this.all("replicasets")).map(({ metadata }) => metadata.uid));
        for (const pod of await this.pods())
          if (pod.metadata.ownerReferences?.some(({ uid }) => !owners.has(uid)) === true) await this.#delete(pod, 0);
        return;
      }
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
        const pod = await this.ask("POST", collection("pods"), { metadata, spec: { containers: [{ name: "c", image: "stray" }] } });
        await this.#bind(pod as unknown as PodNow); // the created pod
        return await this.#setStatus(pod as unknown as PodNow, "Running", true); // the created pod
      }
      case "match":
        for (const { metadata } of (await this.pods()).filter((pod) => pod.metadata.labels?.["app"] === STRAY))
          await this.#merge("pods", metadata.name, { metadata: { labels: { app: "web" } } });
        return;
      default:
        act satisfies never;
    }
  }

  async all(resource: CachedResource): Promise<readonly (KubeObject & { readonly spec: Fields; readonly status: Fields })[]> {
    return (await this.ask("GET", collection(resource)))["items"] as never; // items of the requested resource
  }

  /**
   * Returns the pods sorted by their distinguishing properties, then by age. The order is the same on both sides, except among equal pods.
   */
  async pods(): Promise<readonly PodNow[]> {
    const items = await this.all("pods");
    const byAge = items.toSorted((a, b) => createdAt(a).localeCompare(createdAt(b)));
    const nodes = nodesOf(items);
    const orderOf = (pod: PodNow): string =>
      [phaseOf(pod), readySince(pod), nodes.get(String(pod.spec["nodeName"])) ?? "", ownerOf(pod)].join(" ");
    return byAge.toSorted((a, b) => orderOf(a).localeCompare(orderOf(b)));
  }

  /** @throws {Error} if the request is rejected */
  async ask(method: string, path: string, body?: object, contentType = "application/json"): Promise<Fields> {
    const headers = { "user-agent": "person", "content-type": contentType };
    const [pathname = path, query = ""] = path.split("?");
    const asked = { method, path: pathname, query: new URLSearchParams(query), headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await this.#server.request(asked);
    if (answer.kind !== "object" || answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body as Fields; // JSON
  }

  /** Creates another owner's ReplicaSet with the name of the Deployment's next one, then applies `change` to the Deployment. */
  async #collide(name: string, change: Fields): Promise<void> {
    const path = `${collection("deployments")}/${name}`;
    const { spec, status } = await this.ask("PATCH", `${path}?dryRun=All`, { spec: change }, "application/merge-patch+json");
    const state = podTemplateHashState((spec as Fields)["template"] as unknown as PodTemplateSpec, COMPARED_RELEASE); // the type of a Deployment's field
    const collisions = (status as Fields | undefined)?.["collisionCount"];
    const taken = `${name}-${podTemplateHash(state, typeof collisions === "number" ? collisions : undefined)}`;
    if ((await this.all("replicasets")).every(({ metadata }) => metadata.name !== taken)) {
      const labels = { app: "other" };
      const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "other" }] } };
      const body = {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        metadata: { name: taken, labels },
        spec: { replicas: 0, selector: { matchLabels: labels }, template },
      };
      await this.ask("POST", collection("replicasets"), body);
    }
    await this.#merge("deployments", name, { spec: change });
  }

  async #bind({ metadata }: PodNow): Promise<void> {
    const nodes = nodesOf(await this.pods());
    const [name] = NODES.toSorted((a, b) => (nodes.get(a) ?? "").localeCompare(nodes.get(b) ?? ""));
    await this.ask("POST", `${collection("pods")}/${metadata.name}/binding`, { target: { kind: "Node", name } });
  }

  async #setStatus({ metadata }: PodNow, phase: string, ready: boolean): Promise<void> {
    const condition = { type: "Ready", status: ready ? "True" : "False", lastTransitionTime: formatTime(this.#clock.now()) };
    await this.#merge("pods", `${metadata.name}/status`, { status: { phase, conditions: [condition] } });
  }

  async #delete({ metadata }: PodNow, gracePeriodSeconds: number): Promise<void> {
    await this.ask("DELETE", `${collection("pods")}/${metadata.name}`, { gracePeriodSeconds });
  }

  async #merge(resource: CachedResource, name: string, body: object): Promise<void> {
    await this.ask("PATCH", `${collection(resource)}/${name}`, body, "application/merge-patch+json");
  }
}

function orderOf({ metadata }: KubeObject): string {
  return `${(metadata.annotations?.["deployment.kubernetes.io/revision"] ?? "").padStart(9, "0")} ${metadata.name}`;
}
