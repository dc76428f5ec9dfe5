/** What a deployment lacks, one line each: blocking problems and notes for the operator. */
import { X509Certificate } from "node:crypto";
import { BlockList, isIPv4 } from "node:net";

/** As a template was packaged with: the stack's parameters by their names in serverless.yml, and a few words of the functions' environment. */
export interface Chosen {
  readonly stage: string;
  readonly mode: string;
  readonly redisCluster: string;
  readonly redisDurability: string;
  readonly clusterId: string;
  readonly kubeServer: string;
  readonly kubePort: string;
  readonly kubeCidr: string;
  readonly kubeCa: string;
  readonly kubeEksCluster: string;
  readonly network: string;
  readonly vpcId: string;
  readonly subnetIds: string;
  readonly store: string;
  readonly redisUrl: string;
  readonly redisSecret: string;
  readonly secrets: string;
  readonly alarmTopics: string;
  readonly watcherImage: string;
}

export interface Lacks {
  /** Nothing is made as long as one of these is there. CloudFormation's own rules (infra/rules.yml) are among them. */
  readonly refused: readonly string[];
  /** It would be made, and would not do what people may think. */
  readonly noted: readonly string[];
}

/** Zones that a VPC's subnets must be in, for the store. */
const SUBNETS_MIN = 2;
/** Where the security groups let functions and watcher go (network.yml). */
const STORE_PORT = "6379";
/** Of an alarm's actions. */
const TOPICS_MAX = 5;

export function lacksOf(chosen: Chosen): Lacks {
  const { stage, mode, clusterId, kubeServer, network, vpcId, store, redisUrl } = chosen;
  const server = URL.canParse(kubeServer) ? new URL(kubeServer) : undefined;
  const port = server === undefined || server.port === "" ? "443" : server.port;
  const storePort = URL.canParse(redisUrl) ? new URL(redisUrl).port || STORE_PORT : STORE_PORT;
  const { kubePort, kubeCidr, kubeEksCluster } = chosen;
  const topics = chosen.alarmTopics.split(",").filter((topic) => topic !== "");
  const foreignTopics = topics.filter((topic) => !/^arn:[^:]+:sns:[^:]+:\d{12}:[^:]+$/.test(topic));
  const inVpc = network !== "none";
  const subnets = chosen.subnetIds.split(",").filter((id) => id !== "").length;
  const refused: readonly (readonly [boolean, string])[] = [
    // Part of names that AWS wants in lower case, and of Redis' keys.
    [!/^[a-z][a-z0-9-]{0,19}$/.test(stage), `--stage ${stage}: a small letter, then at most 19 of small letters, digits and dashes`],
    [clusterId === "", "clusterId is missing: the twelve hexadecimal digits that `deltaloop dev` prints"],
    [
      clusterId !== "" && !/^[0-9a-f]{12}$/.test(clusterId),
      `clusterId=${clusterId}: twelve hexadecimal digits, as \`deltaloop dev\` prints them`,
    ],
    [kubeServer === "", "kubeServer is missing: the URL of the API server"],
    [kubeServer !== "" && !kubeServer.startsWith("https://"), `kubeServer=${kubeServer}: a credential is sent over https:// only`],
    [kubeServer.startsWith("https://") && server === undefined, `kubeServer=${kubeServer}: no URL; https://host:port`],
    [
      inVpc && server !== undefined && port !== kubePort,
      `kubePort=${kubePort}: kubeServer is at :${port}, and the security groups would let nobody go there`,
    ],
    [inVpc && cidrOf(kubeCidr) === undefined, `kubeCidr=${kubeCidr}: addresses are written like 203.0.113.7/32`],
    [
      inVpc && server !== undefined && isIPv4(server.hostname) && cidrOf(kubeCidr)?.check(server.hostname) === false,
      `kubeCidr=${kubeCidr}: kubeServer's ${server?.hostname} is not in it`,
    ],
    [!isAuthority(chosen.kubeCa), "kubeCa: neither a certificate in PEM nor its base64; `base64 -w0 ca.crt` prints it"],
    [
      kubeEksCluster !== "" && mode === "act",
      "mode=act with kubeEksCluster: EKS runs the three loops itself, and nobody can end them there; mode=shadow",
    ],
    [topics.length > TOPICS_MAX, `alarmTopics has ${topics.length}: at most five`],
    [foreignTopics.length > 0, `alarmTopics=${foreignTopics.join(",")}: ARNs of SNS topics, with commas`],
    [network === "given" && vpcId === "", "vpcId is missing, with network=given"],
    [network === "given" && subnets < SUBNETS_MIN, `subnetIds has ${subnets}, with network=given: two or more, in different zones`],
    [!inVpc && store !== "given", "a store is made in a VPC only: network=none wants store=given"],
    [store === "given" && redisUrl === "", "redisUrl is missing, with store=given"],
    [store === "given" && redisUrl !== "" && !/^rediss?:\/\/./.test(redisUrl), "redisUrl: rediss://host:port"],
    [
      store === "given" && /^rediss?:\/\/[^/]*@/.test(redisUrl),
      "redisUrl holds a password, which belongs into the secret that redisSecret names",
    ],
    [store === "given" && redisUrl.startsWith("redis://"), "redisUrl is without TLS: rediss://"],
    [
      store === "given" && inVpc && storePort !== STORE_PORT,
      `redisUrl is at :${storePort}, and the security groups let nobody go there: ${STORE_PORT}`,
    ],
    [
      store === "given" && !isReadable(chosen.redisSecret, stage),
      `redisSecret=${chosen.redisSecret}: the functions may read deltaloop/${stage}/redis and no other`,
    ],
    [
      store === "given" && chosen.redisCluster === "true" && chosen.redisDurability === "B",
      "redisDurability=B waits on one connection, and a cluster has many: one primary with a replica, or A",
    ],
  ];
  const noted: readonly (readonly [boolean, string])[] = [
    [chosen.watcherImage === "", "watcherImage: no watcher is made; until one runs somewhere, nothing is ever done"],
    [
      chosen.secrets === "make" && kubeEksCluster === "",
      "credentials for the API server: their secrets begin without a value, and somebody must write one into each",
    ],
    [mode !== "act", "mode=act: it decides and logs, and sends nothing"],
    [chosen.alarmTopics === "", "alarmTopics: alarms go off, and nobody hears of it"],
    [network !== "given" && vpcId !== "", `vpcId is used with network=given alone, and network=${network}`],
    [store !== "given" && redisUrl !== "", `redisUrl is used with store=given alone, and store=${store} makes another one`],
    [inVpc && kubeCidr === "0.0.0.0/0", "kubeCidr: functions may call any address at the API server's port; narrow it to the server's own"],
  ];
  const said = (lines: typeof refused): readonly string[] => lines.flatMap(([holds, line]) => (holds ? [line] : []));
  return { refused: said(refused), noted: said(noted) };
}

/** `10.0.0.0/8`, or nothing where it is none. */
function cidrOf(text: string): BlockList | undefined {
  const [, address = "", bits = ""] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? [];
  if (!isIPv4(address) || Number(bits) > 32) return undefined;
  const list = new BlockList();
  list.addSubnet(address, Number(bits));
  return list;
}

/** By the name or the ARN that roles.yml allows. None is fine: a store may want no password. */
function isReadable(reference: string, stage: string): boolean {
  const [name = ""] = /[^:]*$/.exec(reference) ?? [];
  const allowed = `deltaloop/${stage}/redis`;
  return reference === "" || reference === allowed || (reference.startsWith("arn:") && name.replace(/-\w{6}$/, "") === allowed);
}

/** None is fine: that of a public authority needs none, and one may stand beside each credential. */
function isAuthority(text: string): boolean {
  if (text === "") return true;
  try {
    return new X509Certificate(text.includes("-----BEGIN") ? text : Buffer.from(text, "base64")).subject !== undefined;
  } catch {
    return false;
  }
}

/** What stands in osls' own record of a packaged service. @throws when it is not one */
export function chosenIn(stage: string, state: unknown): Chosen {
  // Written by osls just now, of our serverless.yml.
  const { provider } = (state as { readonly service: { readonly provider: Provider } }).service;
  const parameters = Object.fromEntries(provider.stackParameters.map(({ ParameterKey, ParameterValue }) => [ParameterKey, ParameterValue]));
  const of = (name: string): string => {
    const value = parameters[name];
    if (value === undefined) throw new Error(`serverless.yml gives the stack no ${name}`);
    return value;
  };
  const otherwise = (variable: string): string => /"([^"]*)"\]\}$/.exec(JSON.stringify(provider.environment[variable]))?.[1] ?? "";
  return {
    stage,
    mode: String(provider.environment["DELTALOOP_MODE"]),
    redisCluster: otherwise("DELTALOOP_REDIS_CLUSTER"),
    redisDurability: otherwise("DELTALOOP_REDIS_DURABILITY"),
    clusterId: of("ClusterId"),
    kubeServer: of("KubeServer"),
    kubePort: of("KubePort"),
    kubeCidr: of("KubeCidr"),
    kubeCa: String(provider.environment["DELTALOOP_KUBE_CA"]),
    kubeEksCluster: String(provider.environment["DELTALOOP_KUBE_EKS_CLUSTER"]),
    network: of("Network"),
    vpcId: of("VpcId"),
    subnetIds: of("SubnetIds"),
    store: of("Store"),
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
