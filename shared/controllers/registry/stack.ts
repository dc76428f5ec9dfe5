/**
 * The resources of a deployment that cost money even when idle, depending on the parameters of `npm run deploy --params`. infra/ decides by
 * the same conditions, which test/tooling/stack.test.ts verifies.
 */
import { SECRET_MS_MAX, UsageError } from "@deltaloop/base";

/** The parameters that change the cost. The watcher runs `here` if `watcherImage` is set, else `elsewhere`. */
export interface Stack {
  readonly network: "own" | "given" | "none";
  readonly natGateway: boolean;
  readonly endpoints: boolean;
  /** Zones of the endpoints. */
  readonly zones: number;
  readonly store: "valkey" | "memorydb" | "given";
  readonly storeNodeType: string;
  readonly storeNodes: number;
  readonly key: "make" | "given" | "none";
  readonly secrets: "make" | "given";
  /** How long functions and watcher use secrets before they read them again. */
  readonly secretsSeconds: number;
  readonly metrics: "emf" | "none";
  readonly watcher: "here" | "elsewhere";
  readonly mode: "act" | "shadow";
}

export interface Made {
  readonly natGateways: number;
  /** Interface endpoints, each in every zone. */
  readonly endpoints: number;
  readonly zones: number;
  readonly node: { readonly type: string; readonly count: number };
  readonly keys: number;
  readonly secrets: number;
  /** Number of metrics that alarms evaluate. */
  readonly alarms: number;
  /** Number of watcher tasks, in this stack or elsewhere: deltaloop needs one. */
  readonly watchers: number;
}

const SECRETS_SECONDS_MAX = SECRET_MS_MAX / 1_000;
const OWN_ZONES = 2;
const NODE_TYPES = { valkey: "cache.t4g.small", memorydb: "db.t4g.small", given: "" } as const;
/** MAC key, digest key, and credentials of each component that calls the API server: apply-deltas, three syncs, the watcher. */
const SECRETS = 7;
/** Passwords of the Redis users: each function's, and the watcher's. */
const STORE_SECRETS = 7;
const ENDPOINTS = 2;
/** Endpoints for logs, and two for the image registry. */
const WATCHER_ENDPOINTS = 3;
const ALARMS = { always: 22, metrics: 14, valkey: 5, thirdNode: 2, memorydb: 3 } as const;

export function madeOf(stack: Stack): Made {
  const inVpc = stack.network !== "none";
  const makesStore = inVpc && stack.store !== "given";
  const makesEndpoints = inVpc && stack.endpoints;
  const isValkey = makesStore && stack.store === "valkey";
  const type = stack.storeNodeType === "" ? NODE_TYPES[stack.store] : stack.storeNodeType;
  return {
    natGateways: stack.network === "own" && stack.natGateway ? 1 : 0,
    endpoints: makesEndpoints ? ENDPOINTS + (stack.watcher === "here" ? WATCHER_ENDPOINTS : 0) : 0,
    zones: stack.zones,
    node: { type, count: makesStore ? stack.storeNodes : 0 },
    keys: stack.key === "make" ? 1 : 0,
    secrets: (stack.secrets === "make" ? SECRETS : 0) + (makesStore ? STORE_SECRETS : 0),
    alarms:
      ALARMS.always +
      (stack.metrics === "emf" ? ALARMS.metrics : 0) +
      (isValkey ? ALARMS.valkey + (stack.storeNodes === 3 ? ALARMS.thirdNode : 0) : 0) +
      (makesStore && !isValkey ? ALARMS.memorydb : 0),
    watchers: stack.mode === "act" ? 2 : 1,
  };
}

export const COUNTED: readonly string[] = [
  ...["network", "natGateway", "endpoints", "subnetIds", "store", "storeNodeType", "storeNodes", "keyArn", "secrets", "metrics"],
  ...["watcherImage", "mode", "secretsSeconds"],
];
/** Other parameters of serverless.yml, which do not affect the cost. */
const FREE = [
  ...["runtime", "guard", "maximumConcurrency", "deltasMaxReceiveCount", "clusterId", "kubeServer", "kubeCa", "kubePort", "kubeCidr"],
  ...["vpcCidr", "vpcId", "alarmTopics", "leaveOut", "redisUrl", "redisCluster", "redisDurability", "kubeEksCluster", "redisSecret"],
  ...["sqsEndpoint", "secretsEndpoint", "logLevel"],
];
export const PARAMETERS: readonly string[] = [...COUNTED, ...FREE];

/**
 * Defaults equal those of serverless.yml, except that a cost estimate assumes mode act.
 *
 * @throws {UsageError} for a name or a value that a deployment would reject
 */
export function stackOf(parameters: Readonly<Record<string, string>>): Stack {
  const unknown = Object.keys(parameters).filter((name) => !PARAMETERS.includes(name));
  if (unknown.length > 0) throw new UsageError(`${unknown.join(", ")}: unknown stack parameter; known are ${PARAMETERS.join(", ")}`);
  const of = <T extends string>(name: string, ...known: readonly [T, ...T[]]): T => {
    const value = parameters[name] ?? known[0];
    const found = known.find((each) => each === value);
    if (found === undefined) throw new UsageError(`${name}=${value}: must be one of ${known.join(", ")}`);
    return found;
  };
  const key = parameters["keyArn"] ?? "make";
  const network = of("network", "own", "given", "none");
  const store = of("store", "valkey", "memorydb", "given");
  if (network === "none" && store !== "given") throw new UsageError("a store can be created only in a VPC: network=none needs store=given");
  const seconds = Number(parameters["secretsSeconds"] ?? SECRETS_SECONDS_MAX);
  if (!(Number.isInteger(seconds) && seconds >= 1 && seconds <= SECRETS_SECONDS_MAX))
    throw new UsageError(`secretsSeconds=${parameters["secretsSeconds"]}: must be a whole number from 1 to ${SECRETS_SECONDS_MAX}`);
  const subnets = (parameters["subnetIds"] ?? "").split(",").filter((id) => id !== "").length;
  return {
    network,
    natGateway: of("natGateway", "true", "false") === "true",
    endpoints: of("endpoints", "true", "false") === "true",
    zones: network === "given" && subnets > 0 ? subnets : OWN_ZONES,
    store,
    storeNodeType: parameters["storeNodeType"] ?? "",
    storeNodes: Number(of("storeNodes", "2", "3")),
    key: key === "make" || key === "none" ? key : "given",
    secrets: of("secrets", "make", "given"),
    secretsSeconds: seconds,
    metrics: of("metrics", "emf", "none"),
    watcher: (parameters["watcherImage"] ?? "") === "" ? "elsewhere" : "here",
    mode: of("mode", "act", "shadow"),
  };
}
