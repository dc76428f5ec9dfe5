/**
 * References in an environment, and the values that replace them:
 *
 * | variable | the secret's value | stands for |
 * |---|---|---|
 * | DELTALOOP_MAC_KEY_SECRET | the text of DELTALOOP_MAC_KEY: one key, or several with commas, the first of which signs | DELTALOOP_MAC_KEY |
 * | DELTALOOP_DIGEST_KEY_SECRET | the text of DELTALOOP_DIGEST_KEY | DELTALOOP_DIGEST_KEY |
 * | DELTALOOP_KUBE_SECRET | `{"token"}` or `{"clientCertificate", "clientKey"}`, each with an authority as `"ca"` if there is none
 *   elsewhere, all PEM; or a token alone; `{}` is anonymous. Not read if DELTALOOP_KUBE_EKS_CLUSTER is set |
 *   DELTALOOP_KUBE_TOKEN, …_CLIENT_CERTIFICATE and …_KEY, …_CA |
 * | DELTALOOP_REDIS_SECRET | `{"username", "password"}` or a password for DELTALOOP_REDIS_URL, which then holds none; or a whole URL |
 *   DELTALOOP_REDIS_URL |
 *
 * The form of a reference is in shared/store/ports/secrets.ts. Cloud functions have references only, so reading a function's
 * configuration reveals no credential.
 */
import * as v from "valibot";

import type { SecretValues } from "@deltaloop/store/ports";
import { SECRET_MS_MAX } from "@deltaloop/base";
import { ConfigurationError, twice } from "./configuration.ts";
import type { Variables } from "./configuration.ts";

const REFERENCES = ["DELTALOOP_MAC_KEY_SECRET", "DELTALOOP_DIGEST_KEY_SECRET", "DELTALOOP_KUBE_SECRET", "DELTALOOP_REDIS_SECRET"] as const;
type Reference = (typeof REFERENCES)[number];
const ENDPOINT = "DELTALOOP_SECRETS_ENDPOINT";
const SECONDS = "DELTALOOP_SECRETS_SECONDS";

/** Variables that conflict with a reference. */
const BESIDE: { readonly [R in Reference]: readonly string[] } = {
  DELTALOOP_MAC_KEY_SECRET: ["DELTALOOP_MAC_KEY"],
  DELTALOOP_DIGEST_KEY_SECRET: ["DELTALOOP_DIGEST_KEY"],
  DELTALOOP_KUBE_SECRET: ["DELTALOOP_KUBE_TOKEN", "DELTALOOP_KUBE_TOKEN_FILE", "DELTALOOP_KUBE_CLIENT_CERTIFICATE"],
  DELTALOOP_REDIS_SECRET: [],
};

export interface References {
  /** The reference of each variable that has one. */
  readonly given: ReadonlyMap<Reference, string>;
  readonly endpoint?: string;
  /** How long values are used before they are read again. */
  readonly maxAgeMs: number;
}

/**
 * Returns the references in an environment.
 *
 * @throws {ConfigurationError} if a reference conflicts with a plain variable, or the maximum age is out of range
 */
export function referencesIn(environment: Variables): References {
  const signsItself = Boolean(environment["DELTALOOP_KUBE_EKS_CLUSTER"]);
  const names = REFERENCES.filter((name) => !(signsItself && name === "DELTALOOP_KUBE_SECRET"));
  const given = new Map(names.flatMap((name) => (environment[name] ? [[name, environment[name]] as const] : [])));
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const problems = [...given.keys()].flatMap((name) => twice(set, [name, ...BESIDE[name]]));
  const seconds = Number(environment[SECONDS] || SECRET_MS_MAX / 1_000);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds * 1_000 > SECRET_MS_MAX)
    problems.push(`${SECONDS}: must be a whole number from 1 to ${SECRET_MS_MAX / 1_000}`);
  if (problems.length > 0) throw new ConfigurationError(problems);
  const endpoint = environment[ENDPOINT];
  return { given, maxAgeMs: seconds * 1_000, ...(endpoint && { endpoint }) };
}

/**
 * `environment` with values in place of references, for parseConfiguration; `from` names the secret of each such variable.
 *
 * @throws {ConfigurationError} with the secret whose value has the wrong shape; quotes no value
 */
export function withSecrets(
  environment: Variables,
  { given }: Pick<References, "given">,
  values: SecretValues,
): { readonly variables: Variables; readonly from: ReadonlyMap<string, Reference> } {
  const variables: Record<string, string | undefined> = { ...environment };
  for (const name of [...REFERENCES, ENDPOINT, SECONDS]) delete variables[name];
  const from = new Map<string, Reference>();
  const problems: string[] = [];
  for (const [name, reference] of given) {
    const read = READERS[name]((values.get(reference) ?? "").trim(), variables);
    if (typeof read === "string") problems.push(`${name}: ${read}`);
    else
      for (const [variable, value] of Object.entries(read)) {
        variables[variable] = value;
        from.set(variable, name);
      }
  }
  if (problems.length > 0) throw new ConfigurationError(problems);
  return { variables, from };
}

/** Converts a value to variables, or returns the problem. */
type Reader = (value: string, variables: Variables) => Variables | string;

const READERS: { readonly [R in Reference]: Reader } = {
  DELTALOOP_MAC_KEY_SECRET: (value) => ({ DELTALOOP_MAC_KEY: value }),
  DELTALOOP_DIGEST_KEY_SECRET: (value) => ({ DELTALOOP_DIGEST_KEY: value }),
  DELTALOOP_KUBE_SECRET: kubeVariables,
  DELTALOOP_REDIS_SECRET: redisVariables,
};

const text = v.pipe(v.string(), v.nonEmpty());
const KubeSecret = v.pipe(
  v.string(),
  v.parseJson(),
  v.union([
    v.strictObject({ token: text, ca: v.optional(text) }),
    v.strictObject({ clientCertificate: text, clientKey: text, ca: v.optional(text) }),
    v.strictObject({ ca: v.optional(text) }),
  ]),
);
const RedisSecret = v.pipe(v.string(), v.parseJson(), v.object({ username: v.optional(text), password: text }));

function kubeVariables(value: string): Variables | string {
  if (!value.startsWith("{")) return /^[\w.-]+$/.test(value) ? { DELTALOOP_KUBE_TOKEN: value } : "its value is not a token";
  const { success, output } = v.safeParse(KubeSecret, value);
  if (!success) return `its value is neither {"token"} nor {"clientCertificate", "clientKey"}, each with an optional "ca"`;
  // The CA in the secret takes precedence over that of the environment, because it is rotated together with the credential.
  const ca = output.ca === undefined ? {} : { DELTALOOP_KUBE_CA: output.ca, DELTALOOP_KUBE_CA_FILE: undefined };
  if ("token" in output) return { DELTALOOP_KUBE_TOKEN: output.token, ...ca };
  if (!("clientKey" in output)) return ca;
  return { DELTALOOP_KUBE_CLIENT_CERTIFICATE: output.clientCertificate, DELTALOOP_KUBE_CLIENT_KEY: output.clientKey, ...ca };
}

function redisVariables(value: string, variables: Variables): Variables | string {
  if (/^rediss?:\/\//.test(value)) return { DELTALOOP_REDIS_URL: value };
  const bare: v.InferOutput<typeof RedisSecret> = { password: value };
  const parsed = value.startsWith("{") ? v.safeParse(RedisSecret, value) : { success: value !== "", output: bare };
  if (!parsed.success) return `its value is neither a URL, nor a password, nor {"username", "password"}`;
  const { username, password } = parsed.output as typeof bare; // the result of a success
  const url = variables["DELTALOOP_REDIS_URL"] ?? "";
  if (!URL.canParse(url)) return "its value is a password, and DELTALOOP_REDIS_URL does not name the Redis server";
  const whole = new URL(url);
  if (whole.password !== "") return "contains a password, and DELTALOOP_REDIS_URL contains another";
  if (username !== undefined) whole.username = encodeURIComponent(username);
  whole.password = encodeURIComponent(password);
  return { DELTALOOP_REDIS_URL: whole.href };
}
