/**
 * The laws for large objects (design.md): no step of a sync grows with data that it does not read. Two test environments that differ only
 * in size run the same actions, and their costs are compared as counts, so that no clock is needed.
 */
import { afterEach, describe, expect, it } from "vitest";

import { objectKey } from "../../shared/kube/objects/resources.ts";
import type { Cost, CountedSync } from "../harness/sync/counted-sync.ts";

const NAMESPACE = "default";
const STRATEGIC = "application/strategic-merge-patch+json";
/** resourceVersions and counters grow by digits. */
const BYTES_MORE_MAX = 512;
/** An entry of a slice in HGETALL's answer: its field and its value. */
const ELEMENTS_PER_ROW = 2;
const CROWD = 2_000;

/** Objects that a cluster may contain in large numbers without affecting a Deployment of 1. */
const CROWDS: readonly { readonly name: string; readonly plant: (world: World) => Promise<void> }[] = [
  { name: "pods of another Deployment in its namespace", plant: (world) => world.deployed("crowd", CROWD) },
  { name: "pods without an owner in another namespace", plant: (world) => world.bare("elsewhere", CROWD) },
  {
    name: "Deployments of 5 in its namespace",
    async plant(world) {
      for (let i = 0; i < CROWD / 10; i++) await world.deployed(`crowd-${i}`, 5);
    },
  },
];

export function largeLaws(open: () => Promise<CountedSync>): void {
  const worlds: World[] = [];
  const world = async (): Promise<World> => {
    const rig = await open();
    const one = new World(rig);
    worlds.push(one);
    return one;
  };
  afterEach(async () => {
    for (const { rig } of worlds.splice(0)) await rig.close();
  });

  describe("a Deployment of 1 pod costs the same, from its POST to its last status, regardless of other objects", () => {
    it.each(CROWDS)("among many $name", async ({ plant }) => {
      const alone = await (await world()).lifeOfOne();
      await closeAll(worlds);
      const crowded = await world();
      await plant(crowded);
      await crowded.rig.stream();
      const among = await crowded.lifeOfOne();
      expect(alone.length).toBeGreaterThan(5);
      expect(alone.flatMap(({ requests }) => requests)).not.toContain("list pods");
      expect(among.map(countsOf)).toEqual(alone.map(countsOf));
      among.forEach(({ bytesRead }, step) => expect(bytesRead - (alone[step]?.bytesRead ?? 0)).toBeLessThan(BYTES_MORE_MAX));
    });
  });

  it("a ReplicaSet of 5,000 that replaces one pod costs as much as one of 50, and reads its own pods once", async () => {
    const [small, large] = await compared(50, 5_000, async (one, size) => {
      await one.owned("web", size);
      await one.rig.stream();
      await one.rig.settle();
      await one.rig.person.request("DELETE", `/api/v1/namespaces/${NAMESPACE}/pods/web-0`);
      return [await one.rig.heard(), await one.rig.sync("replicaset", objectKey(NAMESPACE, "web"))];
    });
    expect(small[1]?.requests).toContain("create pods");
    // The owner's first create is decided from a live list: one page for every 500 pods, and none of its rows is written to the cache.
    const pages = (cost: Cost | undefined): number => cost?.requests.filter((request) => request === "list pods").length ?? 0;
    expect([pages(small[1]), pages(large[1])]).toEqual([1, 5_000 / 500]);
    sameBut(small.map(withOnePage), large.map(withOnePage), [0, 5_000 - 50]);
  });

  it("a status change in a Deployment with 300 ReplicaSets costs as much as with 3, and reads each ReplicaSet once", async () => {
    const [small, large] = await compared(3, 300, async (one, size) => {
      await one.deployed("web", 2);
      for (let i = 0; i < size - 1; i++) await one.old("web", i);
      await one.rig.stream();
      await one.rig.settle();
      await one.ready("web-0");
      await one.rig.stream();
      const rs = await one.rig.sync("replicaset", objectKey(NAMESPACE, "web-new"));
      return [rs, await one.rig.sync("deployment", objectKey(NAMESPACE, "web"))];
    });
    expect(small[1]?.requests).toEqual(["patch deployments/status"]);
    sameBut(small, large, [0, 300 - 3]);
  });

  async function compared(
    few: number,
    many: number,
    play: (one: World, size: number) => Promise<readonly Cost[]>,
  ): Promise<readonly [readonly Cost[], readonly Cost[]]> {
    const small = await play(await world(), few);
    await closeAll(worlds);
    return [small, await play(await world(), many)];
  }
}

async function closeAll(worlds: World[]): Promise<void> {
  for (const { rig } of worlds.splice(0)) await rig.close();
}

/** Step by step, the verbs and requests are the same, and the large environment reads exactly `more` additional own rows, each once. */
function sameBut(small: readonly Cost[], large: readonly Cost[], more: readonly number[]): void {
  const wanted = small.map(({ rows, scripted, ...cost }, step) => ({
    ...countsOf({ ...cost, rows: rows + (more[step] ?? 0), scripted }),
    scripted: scripted === 0 ? 0 : scripted + ELEMENTS_PER_ROW * (more[step] ?? 0),
  }));
  expect(large.map(countsOf)).toEqual(wanted);
}

/** The pages of a list counted as one request. */
function withOnePage(cost: Cost): Cost {
  const { requests } = cost;
  return { ...cost, requests: requests.filter((request, i) => request !== "list pods" || requests.indexOf(request) === i) };
}

function countsOf({ verbs, requests, commands, rows, scripted }: Cost): Omit<Cost, "bytesRead"> {
  return { verbs, requests, commands, rows, scripted };
}

/** Objects as controllers leave them, created by the test. */
class World {
  readonly rig: CountedSync;

  constructor(rig: CountedSync) {
    this.rig = rig;
  }

  /** The cost of each step: of the applier, and of each sync. */
  async lifeOfOne(): Promise<readonly Cost[]> {
    const { rig } = this;
    const costs: Cost[] = [];
    const heard = async (): Promise<void> => void costs.push(await rig.heard());
    await this.#post("apis/apps/v1", "deployments", workload("Deployment", "one", 1));
    await heard();
    costs.push(await rig.sync("deployment", objectKey(NAMESPACE, "one")));
    await heard();
    const rs = await this.#newestOf("replicasets", "one-");
    costs.push(await rig.sync("replicaset", objectKey(NAMESPACE, rs)));
    await heard();
    await this.ready(await this.#newestOf("pods", "one-"));
    await heard();
    costs.push(await rig.sync("replicaset", objectKey(NAMESPACE, rs)));
    costs.push(await rig.sync("deployment", objectKey(NAMESPACE, "one")));
    return costs;
  }

  /** Creates a ReplicaSet and its pods. */
  async owned(name: string, pods: number): Promise<void> {
    const owner = await this.#post("apis/apps/v1", "replicasets", workload("ReplicaSet", name, pods));
    await this.#pods("ReplicaSet", name, name, owner, pods);
  }

  /** Creates a Deployment, its one ReplicaSet, and their pods. */
  async deployed(name: string, pods: number): Promise<void> {
    const uid = await this.#post("apis/apps/v1", "deployments", workload("Deployment", name, pods));
    const rs = await this.#replicaSet(name, `${name}-new`, uid, { replicas: pods, image: "bench:1" });
    await this.#pods("ReplicaSet", `${name}-new`, name, rs, pods);
  }

  /** Adds a ReplicaSet to a Deployment, with an older template and without pods. */
  async old(deployment: string, index: number): Promise<void> {
    const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${deployment}`;
    const { metadata } = (await this.rig.person.request("GET", path)) as unknown as Named; // an object
    await this.#replicaSet(deployment, `${deployment}-old-${index}`, metadata.uid, { replicas: 0, image: `bench:old-${index}` });
  }

  async bare(namespace: string, pods: number): Promise<void> {
    await this.rig.person.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    for (let i = 0; i < pods; i++)
      await this.rig.person.request("POST", `/api/v1/namespaces/${namespace}/pods`, pod("stray", `stray-${i}`));
  }

  async ready(name: string): Promise<void> {
    const condition = { type: "Ready", status: "True", lastTransitionTime: "2026-03-01T10:00:00Z" };
    const body = { status: { phase: "Running", conditions: [condition] } };
    await this.rig.person.request("PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/${name}/status`, body, STRATEGIC);
  }

  async #replicaSet(
    deployment: string,
    name: string,
    uid: string,
    { replicas, image }: { readonly replicas: number; readonly image: string },
  ): Promise<string> {
    const labels = { app: deployment, "pod-template-hash": name };
    const body = workload("ReplicaSet", name, replicas, { labels, image, owner: owner("Deployment", deployment, uid) });
    return await this.#post("apis/apps/v1", "replicasets", body);
  }

  async #pods(kind: string, ownerName: string, app: string, uid: string, count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const body = pod(app, `${app}-${i}`, owner(kind, ownerName, uid), { app, "pod-template-hash": ownerName });
      await this.#post("api/v1", "pods", body);
    }
  }

  async #post(group: string, resource: string, body: object): Promise<string> {
    const object = (await this.rig.person.request("POST", `/${group}/namespaces/${NAMESPACE}/${resource}`, body)) as unknown as Named; // an object
    return object.metadata.uid;
  }

  async #newestOf(resource: "replicasets" | "pods", prefix: string): Promise<string> {
    const path = resource === "pods" ? "/api/v1" : "/apis/apps/v1";
    const { items } = await this.rig.person.list(`${path}/namespaces/${NAMESPACE}/${resource}`);
    const names = items.map((item) => (item as unknown as Named).metadata.name); // objects
    return names.find((name) => name.startsWith(prefix)) ?? "";
  }
}

interface Named {
  readonly metadata: { readonly name: string; readonly uid: string };
}

function owner(kind: string, name: string, uid: string): object {
  return { apiVersion: "apps/v1", kind, name, uid, controller: true, blockOwnerDeletion: true };
}

function pod(app: string, name: string, of?: object, labels: Readonly<Record<string, string>> = { app }): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels, ...(of && { ownerReferences: [of] }) },
    spec: { containers: [{ name: "main", image: "bench:1" }] },
  };
}

interface Shape {
  readonly labels?: Readonly<Record<string, string>>;
  readonly image?: string;
  readonly owner?: object;
}

function workload(kind: "Deployment" | "ReplicaSet", name: string, replicas: number, shape: Shape = {}): object {
  const { labels = { app: name }, image = "bench:1", owner: of } = shape;
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: { name, labels, ...(of && { ownerReferences: [of] }) },
    spec: {
      replicas,
      ...(kind === "Deployment" && { revisionHistoryLimit: 1_000 }),
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image }] } },
    },
  };
}
