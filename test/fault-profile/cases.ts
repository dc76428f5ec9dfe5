/**
 * API server faults, user requests during them, and the resulting behaviour of upstream's controllers: one row per case, one namespace per
 * row. Each case runs with upstream's controllers and with ours behind the fault-injecting API server (test/e2e/fault-injecting.test.ts),
 * and with ours on memory adapters (test/conformance/fault-injecting-cases.test.ts).
 */
import { eventually } from "../support/eventually.ts";
import { WRITES } from "./fault-profile.ts";
import type { About, Fault, FaultRule, Often } from "./fault-profile.ts";
import { CONFLICT, deniedByWebhook, namespaceTerminating, tooManyRequests, unavailable } from "./refusals.ts";
import type { DenialCode } from "./refusals.ts";
import type { RawClient } from "../support/raw-client.ts";

export interface Stage {
  readonly namespace: string;
  /** Connects directly to the API server behind the fault injection. */
  readonly client: RawClient;
}

export interface Case {
  /** Name of the case, and suffix of its namespace. */
  readonly id: string;
  readonly name: string;
  readonly rules: (namespace: string) => readonly FaultRule[];
  /** The user requests; resolves when all requested objects exist. */
  readonly play: (stage: Stage) => Promise<void>;
  /** The behaviour of upstream, which ours must equal, as the facts of outcome.ts. */
  readonly facts: readonly string[];
  /**
   * Default `"together"`. `"long"` cases start first and run in parallel with the others. `"heavy"` cases run after the others. `"alone"`
   * cases run last, one by one, because their rules apply to watches, which cover all namespaces.
   */
  readonly turn?: "long" | "heavy" | "alone";
  /** Also compares the number of requests to which the rules applied. */
  readonly countsStruck?: true;
}

const COMPLETE_MS_MAX = 90_000;
/** A number of pods above the burst of 500. */
const MANY = 520;
/** Concurrent requests of the user who creates many pods. */
const PARALLEL = 16;
/** Delay in ms after which the caches contain most of the pods, before their owner is created. */
const HEARD_MS = 2_000;
/**
 * Number of rejections. Retries start after 5 ms and double, so that they take a second; on a busy machine, a Deployment then reports the
 * failure, too.
 */
const DENIED = 9;
const APPS = "/apis/apps/v1";

const CREATE_FAILED = [
  "Event Warning FailedCreate of ReplicaSet",
  "at times Deployment ReplicaFailure=True FailedCreate",
  "at times ReplicaSet ReplicaFailure=True FailedCreate",
];

function comesUpWith(pods: number): readonly string[] {
  return [
    "1 × create replicasets",
    `${pods} × create pods`,
    "Event Normal ScalingReplicaSet of Deployment",
    "Event Normal SuccessfulCreate of ReplicaSet",
    "in the end Deployment Available=True MinimumReplicasAvailable",
    "in the end Deployment Progressing=True NewReplicaSetAvailable",
    "update deployments/status",
    "update replicasets/status",
  ];
}

const SHRINKS = [...comesUpWith(4), "2 × delete pods", "Event Normal SuccessfulDelete of ReplicaSet", "update replicasets"];

export const CASES: readonly Case[] = [
  {
    id: "throttled",
    name: "a Deployment of 12 comes up while a third of all writes is answered 429",
    rules: on({ verbs: WRITES }, { every: 3 }, { kind: "refuse", with: tooManyRequests(1) }),
    play: (stage) => comesUp(stage, 12),
    facts: comesUpWith(12),
  },
  {
    id: "slow-admission",
    name: "a Deployment of 12 comes up while half of the pods take 6 s to be admitted",
    rules: on({ verbs: ["create"], resource: "pods" }, { every: 2 }, { kind: "admitSlowly", ms: 6_000 }),
    play: (stage) => comesUp(stage, 12),
    facts: comesUpWith(12),
    turn: "long",
  },
  {
    id: "unavailable",
    name: "a Deployment of 4 comes up while a third of all writes is answered 503 with Retry-After",
    rules: on({ verbs: WRITES }, { every: 3 }, { kind: "refuse", with: unavailable(1) }),
    play: (stage) => comesUp(stage, 4),
    facts: comesUpWith(4),
  },
  ...([400, 403, 409, 422] as const).map(denied),
  {
    id: "namespace-ending",
    name: "a ReplicaSet of 3 in a terminating namespace tries three pod creates, whatever other faults occur",
    rules: (namespace) =>
      on({ verbs: ["create"], resource: "pods" }, "always", { kind: "refuse", with: namespaceTerminating(namespace) })(namespace),
    play: looksAgain,
    facts: ["3 × create pods told 403", "update replicasets/status"],
    turn: "long",
    countsStruck: true,
  },
  {
    id: "status-conflicts",
    name: "a ReplicaSet's status is written after sixteen conflicts",
    rules: on({ resource: "replicasets/status" }, { first: 16 }, { kind: "refuse", with: CONFLICT }),
    play: async (stage) => {
      await create(stage, "replicasets", replicaSet("web", 2));
      await complete(stage, "replicasets", 2);
    },
    facts: [
      "16 × update replicasets/status told 409",
      "2 × create pods",
      "Event Normal SuccessfulCreate of ReplicaSet",
      "update replicasets/status",
    ],
    countsStruck: true,
  },
  {
    id: "lost-answers",
    name: "a Deployment of 6 comes up while the response to every third pod create is lost",
    rules: on({ verbs: ["create"], resource: "pods" }, { every: 3 }, { kind: "loseAnswer" }),
    play: (stage) => comesUp(stage, 6),
    facts: [...comesUpWith(6), ...CREATE_FAILED],
  },
  {
    id: "half-answers",
    name: "a Deployment of 6 comes up while the response to every third pod create is truncated",
    rules: on({ verbs: ["create"], resource: "pods" }, { every: 3 }, { kind: "cutAnswer" }),
    play: (stage) => comesUp(stage, 6),
    facts: [...comesUpWith(6), ...CREATE_FAILED],
  },
  {
    id: "many",
    name: `a ReplicaSet of 0 adopts ${MANY} pods at once, and deletes them at 400 ms each`,
    rules: on({ verbs: ["delete"], resource: "pods" }, "always", { kind: "admitSlowly", ms: 400 }),
    play: adoptsAndDeletesMany,
    facts: [`${MANY} × update pods`, `${MANY} × delete pods`, "Event Normal SuccessfulDelete of ReplicaSet", "update replicasets/status"],
    turn: "heavy",
  },
  {
    id: "new-fields",
    name: "a Deployment of 4 comes up and scales to 2 while all objects and their statuses have unknown fields",
    rules: () => [{ name: "new fields", about: {}, often: "always", fault: { kind: "addFields" } }],
    play: comesUpAndShrinks,
    turn: "alone",
    facts: SHRINKS,
  },
  {
    id: "cut-watches",
    name: "a Deployment of 4 comes up and scales to 2 although the first two chunks of each watch are cut in the middle",
    rules: () =>
      ["deployments", "replicasets", "pods"].map((resource) => ({
        name: `watches of ${resource} cut`,
        about: { verbs: ["watch"], resource },
        often: { first: 2 },
        fault: { kind: "cutWatch" },
      })),
    play: comesUpAndShrinks,
    turn: "alone",
    facts: SHRINKS,
  },
  {
    id: "stalled-watches",
    name: "a Deployment of 4 comes up and scales to 2 while watches occasionally pause for 2 s",
    rules: () => [{ name: "watches stall", about: { verbs: ["watch"] }, often: { every: 8 }, fault: { kind: "stallWatch", ms: 2_000 } }],
    play: comesUpAndShrinks,
    turn: "alone",
    facts: SHRINKS,
  },
];

/**
 * Runs `cases` with `play`, in the order of their `turn`.
 *
 * @returns the result of each case; callers need not await all of them
 */
export function playInTurns<T>(cases: readonly Case[], play: (given: Case) => Promise<T>): ReadonlyMap<string, Promise<T>> {
  const played = new Map<string, Promise<T>>();
  const start = (given: Case, after: Promise<unknown>): Promise<T> => {
    const one = after.then(() => play(given));
    one.catch(() => undefined); // the awaiting caller gets the error
    played.set(given.id, one);
    return one;
  };
  const inTurn = (turn: Case["turn"]): readonly Case[] => cases.filter((given) => given.turn === turn);
  const now = Promise.resolve();
  const long = inTurn("long").map((given) => start(given, now));
  const together = Promise.allSettled(inTurn(undefined).map((given) => start(given, now)));
  const heavy = inTurn("heavy").map((given) => start(given, together));
  let last: Promise<unknown> = Promise.allSettled([together, ...long, ...heavy]);
  for (const given of inTurn("alone")) last = start(given, last).catch(() => undefined);
  return played;
}

function denied(code: DenialCode): Case {
  return {
    id: `denied-${code}`,
    name: `a Deployment of 3 comes up after a webhook has denied nine pods with ${code}`,
    rules: on({ verbs: ["create"], resource: "pods" }, { first: DENIED }, { kind: "refuse", with: deniedByWebhook(code) }),
    play: (stage) => comesUp(stage, 3),
    facts: [...comesUpWith(3), ...CREATE_FAILED, `${DENIED} × create pods told ${code}`],
    countsStruck: true,
  };
}

/** A rule that applies to one namespace. */
function on(about: About, often: Often, fault: Fault): Case["rules"] {
  return (namespace) => [{ name: fault.kind, about: { ...about, namespace }, often, fault }];
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

/** Enqueues the ReplicaSet repeatedly: each sync could create a surplus pod. */
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
  await new Promise((resolve) => setTimeout(resolve, HEARD_MS));
  await create(stage, "replicasets", replicaSet("web", 0, UNSCHEDULED));
  const path = `/api/v1/namespaces/${stage.namespace}/pods`;
  await eventually("all pods are gone", async () => (await stage.client.list(path)).items.length === 0, COMPLETE_MS_MAX);
  await complete(stage, "replicasets", 0);
}

/** Names a scheduler that does not exist, so that no node runs the pods. */
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

/** Waits until the workload is complete by the criteria of `kubectl rollout status`. */
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
