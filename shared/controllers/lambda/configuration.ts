/**
 * A function's configuration from its environment, read once at start. All errors are reported at once, one line each, and no
 * line quotes a value: some of them are secrets.
 * configuration-variables.ts describes each variable.
 */
import * as v from "valibot";

import { showsToken } from "@deltaloop/kube/http";
import type { ClientCertificate } from "@deltaloop/kube/http";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { Durability } from "@deltaloop/store/redis";
import type { Controller } from "@deltaloop/kube/objects";
import { doorbellsVariable } from "../registry/names.ts";

/** The environment is invalid. The message has one line per error, for the operator. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
    this.problems = problems;
  }
}

export interface Configuration<N extends string = Controller> {
  readonly deployment: string;
  readonly cluster: string;
  readonly mode: "act" | "shadow";
  /** Whether stops of the guard apply (informer §11.9); the default is on. */
  readonly guard?: "on" | "off";
  /** Namespace of the watcher's Lease; the default is NAMESPACE. */
  readonly leaseNamespace?: string;
  readonly digestKey: string;
  /** MAC keys, of which the first signs and all are accepted. */
  readonly macKeys: readonly string[];
  readonly redis: { readonly url: string; readonly cluster: boolean; readonly durability?: Durability };
  /** Versions that the watcher acts on; the default is supported. */
  readonly kubernetes?: "supported" | "any";
  readonly kube: {
    readonly server: string;
    readonly ca?: string;
    readonly caFile?: string;
    readonly token?: string;
    readonly tokenFile?: string;
    readonly certificate?: ClientCertificate;
    readonly eksCluster?: string;
  };
  readonly queues: { readonly deltas: string; readonly doorbells: { readonly [C in N]: string }; readonly endpoint?: string };
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** How functions in Lambda publish metrics. Processes with `/metrics` always collect them. */
  readonly metrics: "emf" | "few" | "none";
}

/** An id of the API server's cluster, or of a directory of clusters, which share queues and so sign their doorbells. */
const [OWN_ID, LISTED_ID] = [/^[0-9a-f]{12}$/, /^[0-9a-f]{32}$/];

export function isListedId(cid: string): boolean {
  return LISTED_ID.test(cid);
}

const PREFIX = "DELTALOOP_";
/** A shorter key could be found by an offline brute-force search. */
const KEY_LENGTH_MIN = 16;

const url = (protocols: string) =>
  v.pipe(v.string(), v.regex(new RegExp(`^(?:${protocols})://[^\\s/]+`), `must start with ${protocols.replaceAll("|", ":// or ")}://`));

const MacKeys = v.pipe(
  v.string(),
  v.transform((text) => text.split(",")),
  v.check((keys) => keys.every((key) => key.length >= KEY_LENGTH_MIN), `each key must have at least ${KEY_LENGTH_MIN} characters`),
  v.check((keys) => new Set(keys).size === keys.length, "names a key twice"),
);

/** The variables by name, with valid values and default. */
export const ENTRIES = {
  DELTALOOP_DEPLOYMENT: v.pipe(
    v.string(),
    v.regex(/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/, "must be 1 to 32 small letters, digits and inner dashes"),
  ),
  DELTALOOP_CLUSTER: v.pipe(
    v.string(),
    v.check((id) => OWN_ID.test(id) || LISTED_ID.test(id), "must be 12 or 32 hex digits"),
  ),
  DELTALOOP_MODE: v.optional(v.picklist(["act", "shadow"], "must be act or shadow"), "shadow"),
  DELTALOOP_LEASE_NAMESPACE: v.optional(v.pipe(v.string(), v.regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "must be a namespace"))),
  DELTALOOP_GUARD: v.optional(v.picklist(["on", "off"], "must be on or off"), "on"),
  DELTALOOP_DIGEST_KEY: v.pipe(v.string(), v.minLength(KEY_LENGTH_MIN, `must have at least ${KEY_LENGTH_MIN} characters`)),
  DELTALOOP_MAC_KEY: MacKeys,
  DELTALOOP_REDIS_URL: url("redis|rediss"),
  DELTALOOP_REDIS_CLUSTER: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
  DELTALOOP_REDIS_DURABILITY: v.optional(v.picklist(["A", "B", "C"], "must be A, B or C"), "C"),
  DELTALOOP_KUBERNETES: v.optional(v.picklist(["supported", "any"], "must be supported or any"), "supported"),
  DELTALOOP_KUBE_SERVER: url("http|https"),
  DELTALOOP_KUBE_CA: v.optional(v.string()),
  DELTALOOP_KUBE_CA_FILE: v.optional(v.string()),
  DELTALOOP_KUBE_TOKEN: v.optional(v.string()),
  DELTALOOP_KUBE_TOKEN_FILE: v.optional(v.string()),
  DELTALOOP_KUBE_CLIENT_CERTIFICATE: v.optional(v.string()),
  DELTALOOP_KUBE_CLIENT_KEY: v.optional(v.string()),
  DELTALOOP_KUBE_EKS_CLUSTER: v.optional(v.pipe(v.string(), v.regex(/^[0-9A-Za-z][\w-]{0,99}$/, "must be the name of an EKS cluster"))),
  DELTALOOP_DELTAS_URL: url("http|https"),
  DELTALOOP_SQS_ENDPOINT: v.optional(url("http|https")),
  DELTALOOP_LOG_LEVEL: v.optional(v.picklist(["debug", "info", "warn", "error"], "must be debug, info, warn or error"), "info"),
  DELTALOOP_METRICS: v.optional(v.picklist(["emf", "few", "none"], "must be emf, few or none"), "emf"),
};

export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * @param controllers whose doorbell queues the environment must name
 * @throws {ConfigurationError} naming every variable that is missing, wrong, contradictory or unknown
 */
export function parseConfiguration(environment: Variables): Configuration;
export function parseConfiguration<N extends string>(environment: Variables, controllers: readonly N[]): Configuration<N>;
export function parseConfiguration(environment: Variables, controllers: readonly string[] = CONTROLLERS): Configuration<string> {
  // A variable with an empty value counts as absent: some tools cannot omit it.
  const ours = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => name.startsWith(PREFIX) && value !== undefined && value !== ""),
  );
  const doorbells = tableOf(controllers.map(doorbellsVariable), () => url("http|https"));
  const result = v.safeParse(v.strictObject({ ...ENTRIES, ...doorbells }), ours);
  const problems = [...(result.issues ?? []).map(problemOf), ...contradictions(ours)];
  if (!result.success || problems.length > 0) throw new ConfigurationError(problems);
  return configurationFrom(
    result.output,
    tableOf(controllers, (name) => ours[doorbellsVariable(name)] ?? ""),
  );
}

/** The environment of a child process; `parseConfiguration` reads the same configuration from it. */
export function environmentOf({ redis, kube, queues, ...rest }: Configuration<string>): Readonly<Record<string, string>> {
  const variables = {
    DELTALOOP_DEPLOYMENT: rest.deployment,
    DELTALOOP_CLUSTER: rest.cluster,
    DELTALOOP_MODE: rest.mode,
    DELTALOOP_GUARD: rest.guard,
    DELTALOOP_LEASE_NAMESPACE: rest.leaseNamespace,
    DELTALOOP_DIGEST_KEY: rest.digestKey,
    DELTALOOP_MAC_KEY: rest.macKeys.join(","),
    DELTALOOP_REDIS_URL: redis.url,
    DELTALOOP_REDIS_CLUSTER: String(redis.cluster),
    DELTALOOP_KUBERNETES: rest.kubernetes,
    DELTALOOP_KUBE_SERVER: kube.server,
    DELTALOOP_KUBE_CA: kube.ca,
    DELTALOOP_KUBE_CA_FILE: kube.caFile,
    DELTALOOP_KUBE_TOKEN: kube.token,
    DELTALOOP_KUBE_TOKEN_FILE: kube.tokenFile,
    DELTALOOP_KUBE_CLIENT_CERTIFICATE: kube.certificate?.cert,
    DELTALOOP_KUBE_CLIENT_KEY: kube.certificate?.key,
    DELTALOOP_KUBE_EKS_CLUSTER: kube.eksCluster,
    DELTALOOP_DELTAS_URL: queues.deltas,
    ...Object.fromEntries(Object.entries(queues.doorbells).map(([name, queueUrl]) => [doorbellsVariable(name), queueUrl])),
    DELTALOOP_SQS_ENDPOINT: queues.endpoint,
    DELTALOOP_LOG_LEVEL: rest.logLevel,
    DELTALOOP_METRICS: rest.metrics,
  } satisfies Readonly<Record<string, string | undefined>>;
  return Object.fromEntries(Object.entries(variables).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

/** Parses only the MAC keys. @throws {ConfigurationError} */
export function parseMacKeys(environment: Variables): readonly string[] {
  const result = v.safeParse(v.object({ DELTALOOP_MAC_KEY: MacKeys }), environment);
  if (!result.success) throw new ConfigurationError(result.issues.map(problemOf));
  return result.output.DELTALOOP_MAC_KEY;
}

function configurationFrom(
  variables: v.InferOutput<v.StrictObjectSchema<typeof ENTRIES, undefined>>,
  doorbells: Configuration<string>["queues"]["doorbells"],
): Configuration<string> {
  const { DELTALOOP_KUBE_CA: ca, DELTALOOP_KUBE_CLIENT_CERTIFICATE: cert, DELTALOOP_KUBE_CLIENT_KEY: key } = variables;
  return {
    deployment: variables.DELTALOOP_DEPLOYMENT,
    cluster: variables.DELTALOOP_CLUSTER,
    mode: variables.DELTALOOP_MODE,
    guard: variables.DELTALOOP_GUARD,
    ...given("leaseNamespace", variables.DELTALOOP_LEASE_NAMESPACE),
    digestKey: variables.DELTALOOP_DIGEST_KEY,
    macKeys: variables.DELTALOOP_MAC_KEY,
    redis: {
      url: variables.DELTALOOP_REDIS_URL,
      cluster: variables.DELTALOOP_REDIS_CLUSTER === "true",
      durability: variables.DELTALOOP_REDIS_DURABILITY,
    },
    kubernetes: variables.DELTALOOP_KUBERNETES,
    kube: {
      server: variables.DELTALOOP_KUBE_SERVER,
      ...(ca === undefined ? {} : { ca: pem(ca) }),
      ...given("caFile", variables.DELTALOOP_KUBE_CA_FILE),
      ...given("token", variables.DELTALOOP_KUBE_TOKEN),
      ...given("tokenFile", variables.DELTALOOP_KUBE_TOKEN_FILE),
      ...(cert !== undefined && key !== undefined && { certificate: { cert: pem(cert), key: pem(key) } }),
      ...given("eksCluster", variables.DELTALOOP_KUBE_EKS_CLUSTER),
    },
    queues: {
      deltas: variables.DELTALOOP_DELTAS_URL,
      doorbells,
      ...given("endpoint", variables.DELTALOOP_SQS_ENDPOINT),
    },
    logLevel: variables.DELTALOOP_LOG_LEVEL,
    metrics: variables.DELTALOOP_METRICS,
  };
}

/** Returns one line for one problem: the variable and the problem, never the value. */
function problemOf(issue: v.BaseIssue<unknown>): string {
  const name = String(issue.path?.[0]?.key ?? "environment");
  if (issue.type === "strict_object" && issue.expected === "never") return `${name}: is not a variable of deltaloop`;
  if (issue.received === "undefined") return `${name}: is missing`;
  return `${name}: ${issue.message}`;
}

function contradictions(variables: Variables): readonly string[] {
  const isSet = (name: string): boolean => variables[name] !== undefined;
  const hasToken = TOKENS.some(isSet);
  const inClear = hasToken && showsToken(variables["DELTALOOP_KUBE_SERVER"] ?? "");
  const sameSecret = variables["DELTALOOP_MAC_KEY"]?.split(",").includes(variables["DELTALOOP_DIGEST_KEY"] ?? "") === true;
  const waitsOnCluster = variables["DELTALOOP_REDIS_DURABILITY"] === "B" && variables["DELTALOOP_REDIS_CLUSTER"] === "true";
  const halves = ["DELTALOOP_KUBE_CLIENT_CERTIFICATE", "DELTALOOP_KUBE_CLIENT_KEY"].filter(isSet);
  return [
    ...twice(variables, ["DELTALOOP_KUBE_CA", "DELTALOOP_KUBE_CA_FILE"]),
    ...twice(variables, [...TOKENS, "DELTALOOP_KUBE_CLIENT_CERTIFICATE"]),
    ...(halves.length === 1 ? [`${halves[0]}: set the client certificate and its key together`] : []),
    ...(waitsOnCluster
      ? [
          "DELTALOOP_REDIS_DURABILITY: class B does not support a Redis Cluster, since it waits for replicas on one connection: use one primary with a replica, or class A",
        ]
      : []),
    ...(inClear ? ["DELTALOOP_KUBE_SERVER: must be https:// when a token goes to another machine"] : []),
    ...(sameSecret
      ? ["DELTALOOP_MAC_KEY: must differ from DELTALOOP_DIGEST_KEY, so that a process that compares digests cannot forge rows"]
      : []),
  ];
}

const TOKENS = ["DELTALOOP_KUBE_TOKEN", "DELTALOOP_KUBE_TOKEN_FILE", "DELTALOOP_KUBE_EKS_CLUSTER"];

/** Returns one line for each of `names` that is set although an earlier name is also set. */
export function twice(variables: Variables, names: readonly string[]): readonly string[] {
  const [first, ...others] = names.filter((name) => variables[name] !== undefined);
  return others.map((other) => `${other}: duplicates ${first}: set only one of them`);
}

function given<K extends string>(key: K, value: string | undefined): { readonly [P in K]?: string } {
  // the result has the key K or is empty
  return (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: string };
}

/** PEM may be in base64, because line breaks often get lost in environment variables. */
function pem(text: string): string {
  return text.includes("-----BEGIN") ? text : Buffer.from(text, "base64").toString("utf8");
}
