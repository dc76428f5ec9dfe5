/** Checks the settings of a deployment: errors that block it, and notes for the operator, one line each. */
import { X509Certificate } from "node:crypto";
import { BlockList, isIPv4 } from "node:net";

import { ALLOWANCES } from "@deltaloop/kube/clusters";

/** Settings of a packaged template: stack parameters under their names in serverless.yml, and values of the functions' environment. */
export interface Settings {
  readonly stage: string;
  readonly mode: string;
  readonly redisCluster: string;
  readonly redisDurability: string;
  readonly clusters: string;
  readonly clustersAllow: string;
  readonly clusterId: string;
  readonly kubeServer: string;
  readonly kubePort: string;
  readonly kubeCidr: string;
  readonly kubeCa: string;
  readonly kubeEksCluster: string;
  readonly network: string;
  readonly vpcId: string;
  readonly subnetIds: string;
  readonly profile: string;
  readonly natGateway: string;
  readonly store: string;
  readonly storeNodes: string;
  readonly redisUrl: string;
  readonly redisSecret: string;
  readonly secrets: string;
  readonly alarmTopics: string;
  readonly watcherImage: string;
}

export interface Findings {
  /** Errors: `npm run deploy` exits before it calls AWS. They include the rules of infra/rules.yml. */
  readonly refused: readonly string[];
  /** Notes: the deployment succeeds, but may not do what the operator expects. */
  readonly noted: readonly string[];
}

/** The store needs subnets in two availability zones. */
const SUBNETS_MIN = 2;
/** The only store port that the security groups of functions and watcher allow (network.yml). */
const STORE_PORT = "6379";
/** CloudWatch's limit of actions per alarm. */
const TOPICS_MAX = 5;

const PRIVATE = new BlockList();
for (const [address, bits] of [
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["100.64.0.0", 10],
] as const)
  PRIVATE.addSubnet(address, bits);

/** Returns the errors and notes for `settings`. */
export function checkSettings(settings: Settings): Findings {
  const { stage, mode, clusterId, kubeServer, network, vpcId, store, redisUrl } = settings;
  const server = URL.canParse(kubeServer) ? new URL(kubeServer) : undefined;
  const port = server === undefined || server.port === "" ? "443" : server.port;
  const storePort = URL.canParse(redisUrl) ? new URL(redisUrl).port || STORE_PORT : STORE_PORT;
  const { kubePort, kubeCidr, kubeEksCluster } = settings;
  const topics = settings.alarmTopics.split(",").filter((topic) => topic !== "");
  const malformedTopics = topics.filter((topic) => !/^arn:[^:]+:sns:[^:]+:\d{12}:[^:]+$/.test(topic));
  const isListed = settings.clusters === "listed";
  const known: readonly string[] = ALLOWANCES;
  const unknownAllowances = settings.clustersAllow.split(",").filter((each) => each !== "" && !known.includes(each));
  const inVpc = network !== "none";
  const subnets = settings.subnetIds.split(",").filter((id) => id !== "").length;
  const refused: readonly (readonly [boolean, string])[] = [
    // AWS resource names, which must be lower case, and Redis keys contain the stage.
    [
      !/^[a-z][a-z0-9-]{0,19}$/.test(stage),
      `--stage ${stage}: must be a lower-case letter, then at most 19 lower-case letters, digits and dashes`,
    ],
    [
      !isListed && clusterId === "",
      "clusterId is missing: set the 12 hexadecimal digits that `deltaloop dev` prints, or set clusters=listed",
    ],
    [
      clusterId !== "" && !/^[0-9a-f]{12}$/.test(clusterId),
      `clusterId=${clusterId}: must be the 12 hexadecimal digits that \`deltaloop dev\` prints`,
    ],
    [!isListed && kubeServer === "", "kubeServer is missing: set the URL of the API server, or set clusters=listed"],
    [
      isListed && [clusterId, kubeServer, kubeEksCluster].some((each) => each !== ""),
      "clusters=listed serves the clusters of `deltaloop cluster`: remove clusterId, kubeServer and kubeEksCluster",
    ],
    [
      unknownAllowances.length > 0,
      `clustersAllow=${unknownAllowances.join(",")}: must be some of ${ALLOWANCES.join(", ")}, separated by commas`,
    ],
    [
      kubeServer !== "" && !kubeServer.startsWith("https://"),
      `kubeServer=${kubeServer}: must start with https://, since it gets credentials`,
    ],
    [kubeServer.startsWith("https://") && server === undefined, `kubeServer=${kubeServer}: not a URL; write https://host:port`],
    [
      inVpc && server !== undefined && port !== kubePort,
      `kubePort=${kubePort}: kubeServer uses port :${port}, which the security groups would block`,
    ],
    [inVpc && cidrOf(kubeCidr) === undefined, `kubeCidr=${kubeCidr}: must be an IPv4 CIDR block such as 203.0.113.7/32`],
    [
      inVpc && server !== undefined && isIPv4(server.hostname) && cidrOf(kubeCidr)?.check(server.hostname) === false,
      `kubeCidr=${kubeCidr}: does not contain kubeServer's address ${server?.hostname}`,
    ],
    [!isAuthority(settings.kubeCa), "kubeCa: not a PEM certificate or its base64; set the output of `base64 -w0 ca.crt`"],
    [
      kubeEksCluster !== "" && mode === "act",
      "mode=act with kubeEksCluster: EKS runs the same controllers and cannot turn them off; use mode=shadow",
    ],
    [topics.length > TOPICS_MAX, `alarmTopics has ${topics.length} topics: an alarm takes at most five`],
    [malformedTopics.length > 0, `alarmTopics=${malformedTopics.join(",")}: must be ARNs of SNS topics, separated by commas`],
    [network === "given" && vpcId === "", "vpcId is missing: network=given needs it"],
    [
      network === "given" && subnets < SUBNETS_MIN,
      `subnetIds has ${subnets} ${subnets === 1 ? "subnet" : "subnets"}: network=given needs at least two, in different availability zones`,
    ],
    [!inVpc && store !== "given", `store=${store} needs a VPC: with network=none, set store=given`],
    [store === "given" && redisUrl === "", "redisUrl is missing: store=given needs it"],
    [store === "given" && redisUrl !== "" && !/^rediss?:\/\/./.test(redisUrl), "redisUrl: must be rediss://host:port"],
    [
      store === "given" && /^rediss?:\/\/[^/]*@/.test(redisUrl),
      "redisUrl contains a password: store it in a secret and name that in redisSecret",
    ],
    [store === "given" && redisUrl.startsWith("redis://"), "redisUrl is without TLS: use rediss://"],
    [
      store === "given" && inVpc && storePort !== STORE_PORT,
      `redisUrl uses port :${storePort}: the security groups allow only ${STORE_PORT}`,
    ],
    [
      store === "given" && !isReadable(settings.redisSecret, stage),
      `redisSecret=${settings.redisSecret}: use deltaloop/${stage}/redis (name or ARN), the only one that the functions may read`,
    ],
    [
      store === "valkey" && settings.storeNodes === "1" && settings.redisDurability !== "C",
      `redisDurability=${settings.redisDurability} with storeNodes=1: there is no replica to wait for, so no message would count as applied; set C`,
    ],
    [
      store === "serverless" && settings.redisDurability !== "C",
      `redisDurability=${settings.redisDurability} with store=serverless: it replicates asynchronously and offers no way to wait; set C`,
    ],
    [
      store === "given" && settings.redisCluster === "true" && settings.redisDurability === "B",
      "redisDurability=B does not work with a Redis cluster, since it waits on one connection; use one primary with a replica, or A",
    ],
  ];
  const noted: readonly (readonly [boolean, string])[] = [
    [settings.watcherImage === "", "watcherImage is empty: the stack runs no watcher; deltaloop does nothing until you run one elsewhere"],
    [
      settings.profile !== "lean" && settings.secrets === "make" && kubeEksCluster === "" && !isListed,
      "credentials for the API server: the stack creates their secrets without a value; write a credential into each",
    ],
    [
      isListed,
      `clusters=listed: add each with \`deltaloop cluster add NAME --kubeconfig FILE --clusters ssm:/deltaloop/${stage}/clusters\``,
    ],
    [mode !== "act", `mode=${mode}: deltaloop decides and logs, but writes nothing to the cluster; set mode=act to act`],
    [settings.alarmTopics === "", "alarmTopics is empty: alarms notify no one"],
    [network !== "given" && vpcId !== "", `vpcId is ignored: it applies to network=given only, and network=${network}`],
    [store !== "given" && redisUrl !== "", `redisUrl is ignored: it applies to store=given only, and store=${store} creates its own store`],
    [
      settings.profile === "lean" && settings.secrets === "make" && !isListed,
      `credentials for the API server: profile=lean reads them from SSM parameters; \`deltaloop rotate tokens --secrets ssm:/deltaloop/${stage}/kube/\` writes them`,
    ],
    [
      settings.profile === "lean" &&
        network === "own" &&
        settings.natGateway === "false" &&
        server !== undefined &&
        isPublicIpv4(server.hostname),
      `kubeServer=${kubeServer}: functions reach public addresses over IPv6 only; use a private or an IPv6 address (Fargate needs the ECS account setting dualStackIPv6), or natGateway=true`,
    ],
    [
      network === "given" && settings.watcherImage !== "",
      "watcherImage: Fargate pulls image layers from S3; the subnets of subnetIds need a gateway endpoint for S3, or a NAT gateway",
    ],
    [
      network === "none" && settings.watcherImage !== "",
      "watcherImage is ignored: a Fargate task needs a VPC, and network=none; run a watcher elsewhere",
    ],
    [
      settings.redisDurability === "C" && store !== "given",
      "redisDurability=C: with the store's data, the record of calls in flight is lost; a controller may then repeat one (docs/guides/deploy.md)",
    ],
    [
      inVpc && kubeCidr === "0.0.0.0/0",
      "kubeCidr=0.0.0.0/0: functions may call any address on kubePort; narrow it to the API server's address",
    ],
  ];
  const holding = (lines: typeof refused): readonly string[] => lines.flatMap(([holds, line]) => (holds ? [line] : []));
  return { refused: holding(refused), noted: holding(noted) };
}

function isPublicIpv4(host: string): boolean {
  return isIPv4(host) && !PRIVATE.check(host);
}

/** Parses a CIDR block such as `10.0.0.0/8`; undefined if malformed. */
function cidrOf(text: string): BlockList | undefined {
  const [, address = "", bits = ""] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? [];
  if (!isIPv4(address) || Number(bits) > 32) return undefined;
  const list = new BlockList();
  list.addSubnet(address, Number(bits));
  return list;
}

/** Whether roles.yml lets functions read this secret, by name or ARN. True for an empty reference, because a store may need no password. */
function isReadable(reference: string, stage: string): boolean {
  const [name = ""] = /[^:]*$/.exec(reference) ?? [];
  const allowed = `deltaloop/${stage}/redis`;
  return reference === "" || reference === allowed || (reference.startsWith("arn:") && name.replace(/-\w{6}$/, "") === allowed);
}

/** Whether `text` is a certificate. True if empty, because a public authority needs none and a credential may contain its own. */
function isAuthority(text: string): boolean {
  if (text === "") return true;
  try {
    return new X509Certificate(text.includes("-----BEGIN") ? text : Buffer.from(text, "base64")).subject !== undefined;
  } catch {
    return false;
  }
}

/** Reads the settings from serverless-state.json, which osls writes for a packaged service. @throws {Error} when a stack parameter is missing */
export function settingsOf(stage: string, state: unknown): Settings {
  // osls has just written this state from serverless.yml.
  const { provider } = (state as { readonly service: { readonly provider: Provider } }).service;
  const parameters = Object.fromEntries(provider.stackParameters.map(({ ParameterKey, ParameterValue }) => [ParameterKey, ParameterValue]));
  const of = (name: string): string => {
    const value = parameters[name];
    if (value === undefined) throw new Error(`serverless.yml does not set the stack parameter ${name}`);
    return value;
  };
  const otherwise = (variable: string): string => /"([^"]*)"\]\}$/.exec(JSON.stringify(provider.environment[variable]))?.[1] ?? "";
  return {
    stage,
    mode: String(provider.environment["DELTALOOP_MODE"]),
    redisCluster: otherwise("DELTALOOP_REDIS_CLUSTER"),
    redisDurability: otherwise("DELTALOOP_REDIS_DURABILITY"),
    clusters: of("Clusters"),
    clustersAllow: String(provider.environment["DELTALOOP_CLUSTERS_ALLOW"]),
    clusterId: of("ClusterId"),
    kubeServer: of("KubeServer"),
    kubePort: of("KubePort"),
    kubeCidr: of("KubeCidr"),
    kubeCa: String(provider.environment["DELTALOOP_KUBE_CA"]),
    kubeEksCluster: String(provider.environment["DELTALOOP_KUBE_EKS_CLUSTER"]),
    network: of("Network"),
    vpcId: of("VpcId"),
    subnetIds: of("SubnetIds"),
    profile: of("Profile"),
    natGateway: of("NatGateway"),
    store: of("Store"),
    storeNodes: of("StoreNodes"),
    redisUrl: of("RedisUrl"),
    redisSecret: otherwise("DELTALOOP_REDIS_SECRET"),
    secrets: of("Secrets"),
    alarmTopics: of("AlarmTopics"),
    watcherImage: of("WatcherImage"),
  };
}

interface Provider {
  readonly stackParameters: readonly { readonly ParameterKey: string; readonly ParameterValue: string }[];
  readonly environment: Readonly<Record<string, unknown>>;
}
