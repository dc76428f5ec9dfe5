/**
 * The resources of a deployment that cost money even when idle, depending on the parameters of `npm run deploy --params`. infra/ decides by
 * the same conditions, which test/tooling/stack.test.ts verifies.
 */
import { SECRET_MS_MAX, UsageError } from "@deltaloop/base";
import { PROFILES } from "./profiles.ts";
import type { Profile } from "./profiles.ts";

/** The parameters that change the cost. The watcher runs `here` if `watcherImage` is set, else `elsewhere`. */
export interface Stack {
  readonly profile: Profile;
  readonly network: "own" | "given" | "none";
  readonly natGateway: boolean;
  readonly endpoints: boolean;
  /** Zones of the endpoints. */
  readonly zones: number;
  readonly store: "valkey" | "serverless" | "memorydb" | "given";
  readonly storeNodeType: string;
  readonly storeNodes: number;
  readonly key: "make" | "given" | "none";
  readonly secrets: "make" | "given";
  /** How long functions and watcher use secrets before they read them again. */
  readonly secretsSeconds: number;
  readonly metrics: "emf" | "few" | "none";
  readonly watcher: "here" | "elsewhere";
  /** The clusters that the deployment serves. */
  readonly clusters: "one" | "listed";
  readonly mode: "act" | "shadow";
}

export interface Made {
  readonly natGateways: number;
  /** Interface endpoints, each in every zone. */
  readonly endpoints: number;
  readonly zones: number;
  readonly node: { readonly type: string; readonly count: number };
  /** Whether the store is ElastiCache Serverless, which has no nodes. */
  readonly isServerless: boolean;
  readonly keys: number;
  readonly secrets: number;
  /** Number of metrics that alarms evaluate. */
  readonly alarms: number;
  /** Number of watcher tasks, in this stack or elsewhere: deltaloop needs one. */
  readonly watchers: number;
  /** Public IPv4 addresses of watcher tasks. */
  readonly addresses: number;
}

const SECRETS_SECONDS_MAX = SECRET_MS_MAX / 1_000;
const OWN_ZONES = { standard: 2, lean: 1 } as const;
const NODE_TYPES = {
  standard: { valkey: "cache.t4g.small", serverless: "", memorydb: "db.t4g.small", given: "" },
  lean: { valkey: "cache.t4g.micro", serverless: "", memorydb: "db.t4g.small", given: "" },
} as const;
/** MAC key and digest key. */
const KEYS = 2;
/**
 * Credentials of each component that calls the API server: apply-deltas, three syncs, the watcher. Those of listed clusters, and of profile
 * lean, are parameters.
 */
const CREDENTIALS = 5;
/** Passwords of the Redis users: each function's, and the watcher's, which all share in profile lean. */
const STORE_SECRETS = { standard: 7, lean: 1 } as const;
const ENDPOINTS = 2;
/** The endpoint for Parameter Store, where credentials are parameters. */
const PARAMETER_ENDPOINTS = 1;
/** Endpoints for logs, and two for the image registry. */
const WATCHER_ENDPOINTS = 3;
const ALARMS = {
  standard: { always: 22, emf: 14, anyMetrics: 1 },
  lean: { always: 12, emf: 0, anyMetrics: 1 },
} as const;
/** Each node has two; the first also reports failovers, if there is another. */
const STORE_ALARMS = { node: 2, failover: 1, memorydb: 3 } as const;

export function madeOf(stack: Stack): Made {
  const { profile, network, store, storeNodes, metrics } = stack;
  const inVpc = network !== "none";
  const makesStore = inVpc && store !== "given";
  const makesEndpoints = inVpc && stack.endpoints;
  const hasNodes = makesStore && store !== "serverless";
  const type = stack.storeNodeType === "" ? NODE_TYPES[profile][store] : stack.storeNodeType;
  const alarms = ALARMS[profile];
  const hasCredentialSecrets = stack.clusters === "one" && profile === "standard";
  const endpoints = ENDPOINTS + (hasCredentialSecrets ? 0 : PARAMETER_ENDPOINTS) + (stack.watcher === "here" ? WATCHER_ENDPOINTS : 0);
  const watchers = stack.mode === "act" && profile === "standard" ? 2 : 1;
  return {
    natGateways: network === "own" && stack.natGateway ? 1 : 0,
    endpoints: makesEndpoints ? endpoints : 0,
    zones: stack.zones,
    node: { type, count: hasNodes ? storeNodes : 0 },
    isServerless: makesStore && store === "serverless",
    keys: stack.key === "make" ? 1 : 0,
    secrets: (stack.secrets === "make" ? KEYS + (hasCredentialSecrets ? CREDENTIALS : 0) : 0) + (makesStore ? STORE_SECRETS[profile] : 0),
    alarms:
      alarms.always +
      (metrics === "emf" ? alarms.emf : 0) +
      (metrics === "none" ? 0 : alarms.anyMetrics) +
      (makesStore && store === "valkey" ? STORE_ALARMS.node * storeNodes + (storeNodes > 1 ? STORE_ALARMS.failover : 0) : 0) +
      (makesStore && store === "memorydb" ? STORE_ALARMS.memorydb : 0),
    watchers,
    addresses: profile === "lean" && network === "own" && stack.watcher === "here" ? watchers : 0,
  };
}

export const COUNTED: readonly string[] = [
  ...["network", "natGateway", "endpoints", "subnetIds", "store", "storeNodeType", "storeNodes", "keyArn", "secrets", "metrics"],
  ...["watcherImage", "mode", "secretsSeconds", "profile", "clusters"],
];
/** Other parameters of serverless.yml, which do not affect the cost. */
const FREE = [
  ...["runtime", "guard", "maximumConcurrency", "deltasMaxReceiveCount", "clusterId", "kubeServer", "kubeCa", "kubePort", "kubeCidr"],
  ...["vpcCidr", "vpcId", "alarmTopics", "leaveOut", "redisUrl", "redisCluster", "redisDurability", "kubeEksCluster", "redisSecret"],
  ...["sqsEndpoint", "secretsEndpoint", "logLevel", "clustersAllow"],
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
  const profile = Object.keys(PROFILES).find((name): name is Profile => name === (parameters["profile"] ?? "standard"));
  if (profile === undefined) throw new UsageError(`profile=${parameters["profile"]}: must be one of ${Object.keys(PROFILES).join(", ")}`);
  const given: Readonly<Record<string, string | undefined>> = { ...PROFILES[profile], ...parameters };
  const of = <T extends string>(name: string, ...known: readonly [T, ...T[]]): T => {
    const value = given[name] ?? known[0];
    const found = known.find((each) => each === value);
    if (found === undefined) throw new UsageError(`${name}=${value}: must be one of ${known.join(", ")}`);
    return found;
  };
  const key = given["keyArn"] ?? "make";
  const network = of("network", "own", "given", "none");
  const store = of("store", "valkey", "serverless", "memorydb", "given");
  if (network === "none" && store !== "given") throw new UsageError("a store can be created only in a VPC: network=none needs store=given");
  const seconds = Number(parameters["secretsSeconds"] ?? SECRETS_SECONDS_MAX);
  if (!(Number.isInteger(seconds) && seconds >= 1 && seconds <= SECRETS_SECONDS_MAX))
    throw new UsageError(`secretsSeconds=${parameters["secretsSeconds"]}: must be a whole number from 1 to ${SECRETS_SECONDS_MAX}`);
  const subnets = (parameters["subnetIds"] ?? "").split(",").filter((id) => id !== "").length;
  return {
    profile,
    network,
    natGateway: of("natGateway", "true", "false") === "true",
    endpoints: of("endpoints", "true", "false") === "true",
    zones: network === "given" && subnets > 0 ? subnets : OWN_ZONES[network === "own" ? profile : "standard"],
    store,
    storeNodeType: parameters["storeNodeType"] ?? "",
    storeNodes: Number(of("storeNodes", "2", "3", "1")),
    key: key === "make" || key === "none" ? key : "given",
    secrets: of("secrets", "make", "given"),
    secretsSeconds: seconds,
    metrics: of("metrics", "emf", "few", "none"),
    watcher: (parameters["watcherImage"] ?? "") === "" ? "elsewhere" : "here",
    clusters: of("clusters", "one", "listed"),
    mode: of("mode", "act", "shadow"),
  };
}
