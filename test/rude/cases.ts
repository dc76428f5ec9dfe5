/**
 * What an API server may do to its clients, and what people do meanwhile: one row, one namespace. Each is played with upstream's
 * controllers behind the rude API server and with ours, and what both did is compared.
 */
import type { KubeHttp } from "../../shared/local/nodes/kube-http.ts";
import { eventually } from "../support/eventually.ts";
import { WRITES } from "./manners.ts";
import type { About, Deed, Manner, Often } from "./manners.ts";
import { CONFLICT, deniedByWebhook, namespaceTerminating, tooManyRequests, unavailable } from "./refusals.ts";
import type { DenialCode } from "./refusals.ts";

export interface Stage {
  readonly namespace: string;
  /** Straight to the good API server. */
  readonly client: KubeHttp;
}

export interface Case {
  /** Names the namespace, too. */
  readonly id: string;
  readonly name: string;
  readonly manners: (namespace: string) => readonly Manner[];
  /** What people do; resolves when all they asked for is there. */
  readonly play: (stage: Stage) => Promise<void>;
  /** Its manners are about watches, which are about all namespaces: it is played after the others. */
  readonly alone?: true;
  /** How many requests the manners struck is compared, too. */
  readonly countsStruck?: true;
  /** What is known to differ from upstream. */
  readonly differs?: Difference;
}

/** Facts as outcome.ts words them. */
export interface Difference {
  readonly why: string;
  readonly ours?: readonly string[];
  readonly theirs?: readonly string[];
}

const COMPLETE_MS_MAX = 60_000;
/** Beyond a burst of 500. */
const MANY = 520;
/** Requests at once of the person who makes many pods. */
const PARALLEL = 32;
const APPS = "/apis/apps/v1";

export const CASES: readonly Case[] = [
  {
    id: "throttled",
    name: "a Deployment of 12 comes up while a third of all writes is answered 429",
    manners: on({ verbs: WRITES }, { every: 3 }, { kind: "refuse", with: tooManyRequests(1) }),
    play: (stage) => comesUp(stage, 12),
  },
  {
    id: "slow-admission",
    name: "a Deployment of 12 comes up while half of the pods take 6 s to be admitted",
    manners: on({ verbs: ["create"], resource: "pods" }, { every: 2 }, { kind: "admitSlowly", ms: 6_000 }),
    play: (stage) => comesUp(stage, 12),
  },
  {
    id: "unavailable",
    name: "a Deployment of 4 comes up while a third of all writes is answered 503 with Retry-After",
    manners: on({ verbs: WRITES }, { every: 3 }, { kind: "refuse", with: unavailable(1) }),
    play: (stage) => comesUp(stage, 4),
  },
  ...([400, 403, 409, 422] as const).map(denied),
  {
    id: "namespace-ending",
    name: "a ReplicaSet of 3 in a namespace that ends asks three times for a pod, whatever else happens to it",
    manners: (namespace) =>
      on({ verbs: ["create"], resource: "pods" }, "always", { kind: "refuse", with: namespaceTerminating(namespace) })(namespace),
    play: looksAgain,
    countsStruck: true,
  },
  {
    id: "status-conflicts",
    name: "a ReplicaSet's status that conflicts sixteen times is written in the end",
    manners: on({ resource: "replicasets/status" }, { first: 16 }, { kind: "refuse", with: CONFLICT }),
    play: async (stage) => {
      await create(stage, "replicasets", replicaSet("web", 2));
      await complete(stage, "replicasets", 2);
    },
    countsStruck: true,
  },
  {
    id: "lost-answers",
    name: "a Deployment of 6 comes up while the answer of each third pod create is lost",
    manners: on({ verbs: ["create"], resource: "pods" }, { every: 3 }, { kind: "loseAnswer" }),
    play: (stage) => comesUp(stage, 6),
  },
  {
    id: "half-answers",
    name: "a Deployment of 6 comes up while the answer of each third pod create breaks off",
    manners: on({ verbs: ["create"], resource: "pods" }, { every: 3 }, { kind: "cutAnswer" }),
    play: (stage) => comesUp(stage, 6),
  },
  {
    id: "many",
    name: `a ReplicaSet adopts ${MANY} pods at once, and deletes them at 400 ms each`,
    manners: on({ verbs: ["delete"], resource: "pods" }, "always", { kind: "admitSlowly", ms: 400 }),
    play: adoptsAndDeletesMany,
  },
  {
    id: "new-fields",
    name: "a Deployment of 4 comes up and goes to 2 while all objects, in statuses too, have fields that nobody knows",
    manners: () => [{ name: "new fields", about: {}, often: "always", deed: { kind: "addFields" } }],
    play: comesUpAndShrinks,
    alone: true,
  },
  {
    id: "cut-watches",
    name: "a Deployment of 4 comes up and goes to 2 although the first two pieces of each watch are cut in their middle",
    manners: () =>
      ["deployments", "replicasets", "pods"].map((resource) => ({
        name: `watches of ${resource} cut`,
        about: { verbs: ["watch"], resource },
        often: { first: 2 },
        deed: { kind: "cutWatch" },
      })),
    play: comesUpAndShrinks,
    alone: true,
  },
  {
    id: "stalled-watches",
    name: "a Deployment of 4 comes up and goes to 2 while watches are silent for 2 s now and then",
    manners: () => [{ name: "watches stall", about: { verbs: ["watch"] }, often: { every: 8 }, deed: { kind: "stallWatch", ms: 2_000 } }],
    play: comesUpAndShrinks,
    alone: true,
  },
];

function denied(code: DenialCode): Case {
  return {
    id: `denied-${code}`,
    name: `a Deployment of 3 comes up after a webhook has denied six pods with ${code}`,
    manners: on({ verbs: ["create"], resource: "pods" }, { first: 6 }, { kind: "refuse", with: deniedByWebhook(code) }),
    play: (stage) => comesUp(stage, 3),
    countsStruck: true,
  };
}

/** One manner about one namespace. */
function on(about: About, often: Often, deed: Deed): Case["manners"] {
  return (namespace) => [{ name: deed.kind, about: { ...about, namespace }, often, deed }];
}

async function comesUp(stage: Stage, replicas: number): Promise<void> {
  await create(stage, "deployments", deployment("web", replicas));
  await complete(stage, "deployments", replicas);
}

async function comesUpAndShrinks(stage: Stage): Promise<void> {
  await comesUp(stage, 4);
  await patch(stage, "deployments", { spec: { replicas: 2 } });
  await complete(stage, "deployments", 2);
}

/** Each look at the ReplicaSet is a chance to ask for its pods once more. */
async function looksAgain(stage: Stage): Promise<void> {
  await create(stage, "replicasets", replicaSet("web", 3));
  for (let look = 0; look < 4; look++) {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await patch(stage, "replicasets", { metadata: { annotations: { look: String(look) } } });
  }
}

async function adoptsAndDeletesMany(stage: Stage): Promise<void> {
  const names = Array.from({ length: MANY }, (_, index) => `bare-${index}`);
  const make = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) await create(stage, "pods", barePod(name));
  };
  await Promise.all(Array.from({ length: PARALLEL }, make));
  await create(stage, "replicasets", replicaSet("web", MANY, UNSCHEDULED));
  await eventually("all pods are adopted", async () => (await read(stage, "replicasets")).status?.replicas === MANY, COMPLETE_MS_MAX);
  await patch(stage, "replicasets", { spec: { replicas: 0 } });
  await complete(stage, "replicasets", 0);
}

/** No scheduler takes them, so that no node is busy with them. */
const UNSCHEDULED = { schedulerName: "nobody" };
const labels = { app: "web" };
const containers = [{ name: "main", image: "shop:1" }];

function deployment(name: string, replicas: number): object {
  const spec = { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
  return { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec };
}

function replicaSet(name: string, replicas: number, podSpec: object = {}): object {
  const template = { metadata: { labels }, spec: { containers, ...podSpec } };
  return { apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template } };
}

function barePod(name: string): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, labels }, spec: { containers, ...UNSCHEDULED } };
}

interface Progress {
  readonly metadata: { readonly generation: number };
  readonly status?: Readonly<Partial<Record<"observedGeneration" | "replicas" | "updatedReplicas" | "availableReplicas", number>>>;
}

type Workload = "deployments" | "replicasets";

async function create({ namespace, client }: Stage, resource: Workload | "pods", object: object): Promise<void> {
  await client.request("POST", `${resource === "pods" ? "/api/v1" : APPS}/namespaces/${namespace}/${resource}`, object);
}

async function patch({ namespace, client }: Stage, resource: Workload, body: object): Promise<void> {
  await client.request("PATCH", `${APPS}/namespaces/${namespace}/${resource}/web`, body, "application/merge-patch+json");
}

async function read({ namespace, client }: Stage, resource: Workload): Promise<Progress> {
  return (await client.request("GET", `${APPS}/namespaces/${namespace}/${resource}/web`)) as unknown as Progress; // a workload
}

/** As `kubectl rollout status` judges it. */
async function complete(stage: Stage, resource: Workload, replicas: number): Promise<void> {
  const counts = resource === "deployments" ? (["replicas", "updatedReplicas", "availableReplicas"] as const) : (["replicas"] as const);
  await eventually(
    `${stage.namespace}: ${resource}/web has ${replicas}`,
    async () => {
      const { metadata, status = {} } = await read(stage, resource);
      return status.observedGeneration === metadata.generation && counts.every((count) => (status[count] ?? 0) === replicas);
    },
    COMPLETE_MS_MAX,
  );
}
