/**
 * Parses the node's registry credentials: docker configuration and credential provider plugins (node-agent §8). Source:
 * pkg/credentialprovider/{keyring,config}.go, plugin/{plugin,config}.go.
 */
import { ownAt } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import { decodeGo, mistakeText, parseGoTypes } from "@deltaloop/kube/pod-template";
import { parseGoDuration } from "@deltaloop/base";
import { textOfBytes } from "@deltaloop/base";
import type { AuthConfig } from "../../ports/cri-types.ts";
import { globMatches } from "./glob.ts";

/** Credentials by registry or registry path, as `docker login` writes them. */
export type DockerConfig = Readonly<Record<string, { readonly username?: string; readonly password?: string }>>;

const DEFAULT_REGISTRY = "index.docker.io";

/**
 * Returns the image's repository for the credential lookup, with the registry and without tag and digest.
 *
 *     web:1 → docker.io/library/web        registry.test:5000/team/web@sha256:… → registry.test:5000/team/web
 *
 * Source: pkg/util/parsers/parsers.go ParseImageName.
 */
export function repositoryOf(image: string): string {
  const name = image.replace(/@.*$/u, "").replace(/:[^:/]*$/u, "");
  const [first = "", ...rest] = name.split("/");
  if (rest.length > 0 && (/[.:]/u.test(first) || first === "localhost" || first !== first.toLowerCase())) return name;
  return `docker.io/${rest.length === 0 ? "library/" : ""}${name}`;
}

/**
 * Returns the credentials for `repository`, most specific first, or Docker Hub's default entry if nothing matches. Source: keyring.go
 * BasicDockerKeyring.
 */
export function credentialsFor(repository: string, configs: readonly DockerConfig[]): readonly AuthConfig[] {
  const entries = configs.flatMap((config) => Object.entries(config).map(([place, auth]) => ({ key: keyOf(place), place, auth })));
  const byKey = Map.groupBy(entries, ({ key }) => key);
  // Sorts in reverse byte order, as Go does.
  const keys = [...byKey.keys()].toSorted((a, b) => Buffer.compare(Buffer.from(b), Buffer.from(a)));
  const matching = keys.filter((key) => urlsMatch(key, repository));
  const chosen = matching.length > 0 ? matching : repository.startsWith("docker.io/") ? [DEFAULT_REGISTRY] : [];
  return chosen.flatMap((key) => byKey.get(key) ?? []).map(({ auth: { username = "", password = "" } }) => ({ username, password }));
}

/** `https://index.docker.io/v1/` has the key `index.docker.io`. */
function keyOf(place: string): string {
  const [host = "", ...path] = place.replace(/^https?:\/\//u, "").split("/");
  const whole = path.length === 0 ? "" : `/${path.join("/")}`;
  const below = /^\/v[12]\//u.test(whole) ? whole.slice("/v1".length) : whole;
  return below === "/" ? host : `${host}${below}`;
}

/**
 * Whether `target` matches `glob`: same port and number of host labels (`*` allowed), and the path prefix.
 *
 *     *.dkr.ecr.*.amazonaws.com        registry.test:5000/team
 *
 * Source: keyring.go URLsMatch.
 */
export function urlsMatch(glob: string, target: string): boolean {
  const [pattern, own] = [partsOf(glob), partsOf(target)];
  if (pattern.port !== own.port || pattern.host.length !== own.host.length || !own.path.startsWith(pattern.path)) return false;
  return pattern.host.every((part, index) => globMatches(part, own.host[index] ?? ""));
}

function partsOf(url: string): { readonly host: readonly string[]; readonly port: string; readonly path: string } {
  const slash = url.indexOf("/");
  const [host = "", port = ""] = (slash === -1 ? url : url.slice(0, slash)).split(":");
  return { host: host.split("."), port, path: slash === -1 ? "" : url.slice(slash) };
}

/**
 * Parses either docker configuration format; `auth` overrides username and password. Ignores credential helpers (`credsStore`,
 * `credHelpers`). Source: pkg/credentialprovider/config.go. @throws for any other format
 */
export function parseDockerConfig(text: string, form: "config.json" | ".dockercfg"): DockerConfig {
  const content = objectIn<{ readonly auths?: unknown }>(JSON.parse(text));
  const entries = form === "config.json" ? objectIn(content.auths ?? null) : content;
  return Object.fromEntries(
    Object.entries(entries as Readonly<Record<string, Readonly<Record<string, unknown>> | null>>).map(([place, entry]) => [
      place,
      credentialsIn(entry ?? {}),
    ]),
  );
}

/** Treats null as an empty object, as Go does. */
function objectIn<T extends object>(value: unknown): Partial<T> {
  if (typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("no docker configuration");
  return value ?? {}; // an empty object is valid, because all fields are optional
}

function credentialsIn({ auth, username, password }: Readonly<Record<string, unknown>>): {
  readonly username: string;
  readonly password: string;
} {
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  if (text(auth) === "") return { username: text(username), password: text(password) };
  const [, name, word] = /^([^:]*):(.*)$/su.exec(textOfBytes(Buffer.from(text(auth), "base64"))) ?? [];
  if (name === undefined || word === undefined) throw new SyntaxError("unable to parse auth field");
  return { username: name, password: word };
}

const PROVIDER_API_VERSIONS = ["v1", "v1beta1", "v1alpha1"].map((version) => `credentialprovider.kubelet.k8s.io/${version}`);

const CONFIG_KIND = "CredentialProviderConfig";

/** A provider as decoded; null and absent fields are undefined. */
interface GivenProvider {
  readonly name?: string;
  readonly apiVersion?: string;
  readonly matchImages?: readonly string[];
  readonly defaultCacheDuration?: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name?: string; readonly value?: string }[];
  readonly tokenAttributes?: object;
}

/** A credential provider plugin. Source: k8s.io/kubelet config/v1/types.go CredentialProvider. */
export interface CredentialProvider {
  readonly name: string;
  readonly apiVersion: string;
  readonly matchImages: readonly string[];
  readonly defaultCacheMs: number;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The request to write to the plugin's standard input. */
export function providerRequest({ apiVersion }: CredentialProvider, repository: string): string {
  return JSON.stringify({ kind: "CredentialProviderRequest", apiVersion, image: repository });
}

export interface ProviderAnswer {
  readonly auth: DockerConfig;
  /** Cache key, which determines the images that the response applies to. */
  readonly cacheKey: string;
  /** 0 means not cached. */
  readonly cacheMs: number;
}

/** An invalid plugin response. The error message never quotes the response, because it may contain a password. */
class ProviderAnswerError extends Error {
  override readonly name = "ProviderAnswerError";
}

const GLOBAL = "<global>";

/** Parses a plugin response. @throws {ProviderAnswerError} if it is invalid. Source: plugin.go ExecPlugin, provide. */
export function providerAnswer(text: string, provider: CredentialProvider, repository: string): ProviderAnswer {
  let content: Readonly<Record<string, unknown>>;
  try {
    content = JSON.parse(text) as typeof content; // each field is checked below
  } catch {
    throw new ProviderAnswerError("error decoding credential provider plugin response from stdout");
  }
  const { apiVersion, kind, cacheKeyType, cacheDuration, auth } = content ?? {};
  if (apiVersion !== provider.apiVersion)
    throw new ProviderAnswerError(
      `apiVersion from credential plugin response did not match expected apiVersion:${provider.apiVersion}, actual apiVersion:${String(apiVersion)}`,
    );
  if (kind !== "CredentialProviderResponse")
    throw new ProviderAnswerError("error decoding credential provider plugin response from stdout");
  const cacheKey = ownAt(cacheKeysOf(repository), String(cacheKeyType));
  if (cacheKey === undefined)
    throw new ProviderAnswerError(`credential provider plugin did not return a valid cacheKeyType: ${String(cacheKeyType)}`);
  const cacheMs = cacheDuration === undefined || cacheDuration === null ? provider.defaultCacheMs : durationMs(cacheDuration);
  if (cacheMs === undefined) throw new ProviderAnswerError("error decoding credential provider plugin response from stdout");
  const entries = Object.entries((auth ?? {}) as Readonly<Record<string, Readonly<Record<string, unknown>> | null>>); // a value that is not an object has no entries
  return {
    auth: Object.fromEntries(entries.map(([place, entry]) => [place, credentialsIn({ ...entry, auth: undefined })])),
    cacheKey,
    cacheMs,
  };
}

/** Cache keys for `repository`, most specific first. */
export function cacheKeysOf(repository: string): Readonly<Record<string, string>> {
  return { Image: repository, Registry: repository.split("/")[0] ?? "", Global: GLOBAL };
}

/** Parses a metav1.Duration: a Go duration such as `1h30m`, or 0. Undefined if invalid or negative. */
export function durationMs(value: unknown): number | undefined {
  const ms = value === 0 ? 0 : typeof value === "string" ? parseGoDuration(value) : undefined;
  return ms !== undefined && ms >= 0 ? ms : undefined;
}

/** Source: k8s.io/kubelet config/v1/types.go. */
const CONFIG_TYPES = parseGoTypes([
  `TypeMeta{Kind:s APIVersion=apiVersion:s}
CredentialProviderConfig{TypeMeta^:~ Providers:[]CredentialProvider}
CredentialProvider{Name:s MatchImages:[]s DefaultCacheDuration:*Duration APIVersion=apiVersion:s Args:[]s Env:[]ExecEnvVar
  TokenAttributes:*ServiceAccountTokenAttributes}
ExecEnvVar{Name:s Value:s}
ServiceAccountTokenAttributes{ServiceAccountTokenAudience:s CacheType:s RequireServiceAccount:*b
  RequiredServiceAccountAnnotationKeys:[]s OptionalServiceAccountAnnotationKeys:[]s}`,
]);

/**
 * Parses the providers of one configuration file. @throws {Error} with all problems. Source: plugin/config.go
 * validateCredentialProviderConfig.
 */
export function parseProviders(content: unknown): readonly CredentialProvider[] {
  const { apiVersion = "", kind } = (content ?? {}) as Readonly<Record<string, unknown>>; // checked field by field
  if (kind !== CONFIG_KIND) throw new Error(`failed to decode "${String(kind)}" (wrong Kind)`);
  if (!String(apiVersion).startsWith("kubelet.config.k8s.io/"))
    throw new Error(`failed to decode CredentialProviderConfig, unexpected Group: ${String(apiVersion).split("/")[0]}`);
  const { object, mistakes, unknown } = decodeGo(content as JsonObject, CONFIG_TYPES(CONFIG_KIND), CONFIG_KIND);
  const undecodable = [...mistakes.map(mistakeText), ...unknown.map((path) => `unknown field "${path}"`)];
  if (undecodable.length > 0) throw new Error(undecodable.join(", "));
  const providers = (object["providers"] ?? []) as unknown as readonly GivenProvider[]; // decoded with that type
  if (providers.length === 0) throw new Error("providers: Required value: at least 1 item in plugins is required");
  const invalid = providers.flatMap(providerMistakes);
  if (invalid.length > 0) throw new Error(invalid.join(", "));
  return providers.map(({ name = "", apiVersion = "", matchImages = [], defaultCacheDuration, args = [], env = [] }) => ({
    ...{ name, apiVersion, matchImages, args },
    defaultCacheMs: durationMs(defaultCacheDuration) ?? 0,
    env: Object.fromEntries(env.map((variable) => [variable.name ?? "", variable.value ?? ""])),
  }));
}

function providerMistakes({
  name = "",
  apiVersion,
  matchImages = [],
  defaultCacheDuration,
  tokenAttributes,
}: GivenProvider): readonly string[] {
  const invalid = (why: string): string => `providers.name: Invalid value: "${name}": ${why}`;
  return [
    name === "" ? "providers.name: Required value" : undefined,
    name.includes("/") ? invalid("provider name cannot contain '/'") : undefined,
    name.includes(" ") ? invalid("provider name cannot contain spaces") : undefined,
    name === "." || name === ".." ? invalid(`provider name cannot be '${name}'`) : undefined,
    apiVersion === undefined || apiVersion === "" ? "providers.apiVersion: Required value" : undefined,
    apiVersion !== undefined && apiVersion !== "" && !PROVIDER_API_VERSIONS.includes(apiVersion)
      ? `providers.apiVersion: Unsupported value: "${apiVersion}": supported values: ${PROVIDER_API_VERSIONS.map((one) => `"${one}"`).join(", ")}`
      : undefined,
    matchImages.length === 0 ? "providers.matchImages: Required value: at least 1 item in matchImages is required" : undefined,
    defaultCacheDuration === undefined ? "providers.defaultCacheDuration: Required value" : undefined,
    defaultCacheDuration !== undefined && durationMs(defaultCacheDuration) === undefined
      ? `providers.defaultCacheDuration: Invalid value: "${defaultCacheDuration}": must be greater than or equal to 0`
      : undefined,
    tokenAttributes === undefined
      ? undefined
      : "providers.tokenAttributes: Forbidden: this agent gives providers no service account tokens: remove it",
  ].filter((mistake) => mistake !== undefined);
}
