/**
 * The cost of one tenant's flood for another tenant: 10,000 pods are created in one namespace as fast as the API server accepts them, while
 * another namespace has its usual changes. There, a Deployment of 1 is created until its pod exists, then the pod is deleted until its
 * replacement exists (polled every 20 ms; no nodes, so no pod starts). The same changes before the flood are the baseline.
 *
 * A third of the flood are orphans that no selector matches, a third are orphans that a ReplicaSet of their namespace adopts, and a third
 * carry 10 KB of annotations and extreme deletion costs. Ours: `deltaloop dev --act` on a control plane whose own workload controllers are
 * off. Upstream's: a second control plane with its own workload controllers. Rounds alternate, while the other side is idle. On a machine
 * with other load, only the ratios within one run are meaningful.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { startCluster, startDev } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const OBJECTS = 10_000;
const ROUNDS = 2;
const CALM_CHANGES = 10;
const WORKERS = 24;
const LOOK_MS = 20;
const CHANGE_MS_MAX = 60_000;
const REST_MS = 5_000;
const [MATCHED, UNMATCHED] = [{ app: "evil" }, { app: "nobody" }];
const HEAVY = { flood: "x".repeat(10_000), "controller.kubernetes.io/pod-deletion-cost": "-2147483648" };
const containers = [{ name: "main", image: "bench:1" }];

/** Times from a change to its effect, in ms. */
interface Lags {
  readonly created: number[];
  readonly replaced: number[];
}

interface Contestant {
  readonly name: string;
  readonly cluster: Cluster;
  readonly calm: Lags;
  readonly flooded: Lags;
  readonly floodSeconds: number[];
}

/** @throws {Error} if this machine has no control plane or Redis (see test/envtest) */
export async function bench(): Promise<readonly BenchResult[]> {
  const clusters: Cluster[] = [];
  let dev: Running | undefined;
  try {
    const start = async (name: string, controllers: "all" | "without-workloads"): Promise<Contestant> => {
      const cluster = await startCluster({ controllers, machines: false });
      clusters.push(cluster);
      await namespace(cluster, "shop");
      return { name, cluster, calm: { created: [], replaced: [] }, flooded: { created: [], replaced: [] }, floodSeconds: [] };
    };
    const ours = await start("deltaloop", "without-workloads");
    dev = await startDev(ours.cluster);
    const upstream = await start("upstream", "all");
    for (let round = 0; round < ROUNDS; round++) {
      for (const contestant of [ours, upstream]) await play(contestant, `flood-${round}`);
    }
    return [...compared("calm", ours.calm, upstream.calm), ...compared("flooded", ours.flooded, upstream.flooded)];
  } finally {
    await dev?.stop();
    for (const cluster of clusters) await cluster.stop();
  }
}

function compared(when: string, ours: Lags, theirs: Lags): readonly BenchResult[] {
  const figures = { created: "Deployment to its pod", replaced: "deleted pod to the next" } as const;
  return Object.entries(figures).flatMap(([figure, what]) => {
    const key = figure as keyof Lags; // a key of `figures`
    const upstream = benchResult(`${what}, ${when}, upstream`, "ms", theirs[key]);
    return [benchResult(`${what}, ${when}`, "ms", ours[key], { name: "upstream in the same run", value: upstream.value }), upstream];
  });
}

async function play({ name, cluster, calm, flooded, floodSeconds }: Contestant, into: string): Promise<void> {
  await namespace(cluster, into);
  for (let i = 0; i < CALM_CHANGES; i++) await change(cluster, `${into}-calm-${i}`, calm);
  const from = performance.now();
  let isOver = false;
  const flooding = flood(cluster, into).finally(() => (isOver = true));
  for (let i = 0; !isOver; i++) await change(cluster, `${into}-${i}`, flooded);
  await flooding;
  floodSeconds.push((performance.now() - from) / 1_000);
  process.stderr.write(
    `  ${into} ${name}: ${OBJECTS} pods in ${floodSeconds.at(-1)?.toFixed(1)} s, ${flooded.created.length} changes so far\n`,
  );
  await sleep(REST_MS);
}

async function flood({ client }: Cluster, into: string): Promise<void> {
  const spec = {
    replicas: Math.floor(OBJECTS / 3),
    selector: { matchLabels: MATCHED },
    template: { metadata: { labels: MATCHED }, spec: { containers } },
  };
  let next = 0;
  const work = async (): Promise<void> => {
    for (let i = next++; i < OBJECTS; i = next++) {
      const metadata = { name: `f-${i}`, labels: i % 3 === 1 ? MATCHED : UNMATCHED, ...(i % 3 === 2 && { annotations: HEAVY }) };
      await client.request("POST", `/api/v1/namespaces/${into}/pods`, { apiVersion: "v1", kind: "Pod", metadata, spec: { containers } });
      // Creates the ReplicaSet halfway, so that some orphans exist before it and the others come later.
      if (i === OBJECTS / 2)
        await client.request("POST", `/apis/apps/v1/namespaces/${into}/replicasets`, {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          metadata: { name: "evil" },
          spec,
        });
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
}

/** Creates a Deployment of 1, deletes its pod, and deletes the Deployment. */
async function change({ client }: Cluster, name: string, { created, replaced }: Lags): Promise<void> {
  const labels = { app: name };
  const pods = `/api/v1/namespaces/shop/pods?labelSelector=app%3D${name}`;
  const newest = async (but?: string): Promise<string | undefined> => {
    const { items } = (await client.request("GET", pods)) as unknown as { readonly items: readonly Named[] }; // a PodList
    return items.map(({ metadata }) => metadata.name).find((each) => each !== but);
  };
  const spec = { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
  const collection = "/apis/apps/v1/namespaces/shop/deployments";
  const postedAt = performance.now();
  await client.request("POST", collection, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec });
  const first = await eventually(`the pod of ${name}`, () => newest());
  created.push(performance.now() - postedAt);
  const deletedAt = performance.now();
  await client.request("DELETE", `/api/v1/namespaces/shop/pods/${first}`);
  await eventually(`the next pod of ${name}`, () => newest(first));
  replaced.push(performance.now() - deletedAt);
  await client.request("DELETE", `${collection}/${name}`);
}

interface Named {
  readonly metadata: { readonly name: string };
}

async function namespace({ client, get }: Cluster, name: string): Promise<void> {
  await client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  const account = `/api/v1/namespaces/${name}/serviceaccounts/default`;
  await eventually(`${name} has its service account`, async () => ((await get(account)) === undefined ? undefined : name));
}

async function eventually(what: string, look: () => Promise<string | undefined>): Promise<string> {
  const end = performance.now() + CHANGE_MS_MAX;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > end) throw new Error(`not within ${CHANGE_MS_MAX / 1_000} s: ${what}`);
    await sleep(LOOK_MS);
  }
}
