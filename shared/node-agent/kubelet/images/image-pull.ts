/**
 * Image names, pull decisions and pull secrets (node-agent §8). Source: pkg/kubelet/images/image_manager.go;
 * github.com/distribution/reference.
 */
import type { BackOffEntry } from "../../ports/node-store.ts";
import { nextBackOff } from "../pod-workers/back-off.ts";
import { globMatches } from "./glob.ts";
import type { PullFailure } from "./pull-messages.ts";
import { textOfBytes } from "@deltaloop/base";
import type { AuthConfig } from "../../ports/cri-types.ts";
import type { SecretData } from "../types/referenced-objects.ts";

export type ImageDecision =
  | { readonly kind: "present" }
  | { readonly kind: "pull" }
  /** The image is missing and the pull policy is Never. */
  | { readonly kind: "never" }
  | { readonly kind: "backOff"; readonly untilMs: number };

/** The image reference, with `:latest` if it has no tag or digest. Source: image_manager.go applyDefaultImageTag. */
export function imageRef(image: string): string {
  const name = parseImageName(image);
  return "mistake" in name || name.tag !== undefined || name.digest !== undefined ? image : `${image}:latest`;
}

/**
 * Returns why the image name is invalid, or undefined.
 *
 *     Foo → "invalid reference format: repository name (library/Foo) must be lowercase"
 */
export function imageNameMistake(image: string): string | undefined {
  const name = parseImageName(image);
  return "mistake" in name ? name.mistake : undefined;
}

/**
 * The API's default pull policy; static pods do not get it from the API server. Source: pkg/apis/core/v1/defaults.go SetDefaults_Container.
 */
export function defaultPullPolicy(image: string): "Always" | "IfNotPresent" {
  const name = parseImageName(imageRef(image));
  return "tag" in name && name.tag === "latest" ? "Always" : "IfNotPresent";
}

export function pullBackOffKey(uid: string, image: string): string {
  return `${uid}_${image}`;
}

/**
 * Decides whether to pull. Back-off applies only if a pull is needed:
 *
 *                     Always      IfNotPresent   Never
 *     present         pull        present        present
 *     absent          pull        pull           never
 *     absent, failed  backOff     backOff        never
 *
 * Source: image_manager.go EnsureImageExists, imagePullPrecheck.
 */
export function imageDecision({
  policy,
  present,
  entry,
  nowMs,
}: {
  readonly policy: string;
  readonly present: boolean;
  readonly entry: BackOffEntry | undefined;
  readonly nowMs: number;
}): ImageDecision {
  if (present && policy !== "Always") return { kind: "present" };
  if (policy !== "Always" && policy !== "IfNotPresent") return { kind: "never" };
  const untilMs = entry === undefined ? nowMs : entry.lastUpdateMs + entry.delayMs;
  return nowMs < untilMs ? { kind: "backOff", untilMs } : { kind: "pull" };
}

/** Back-off per pod and image: 10 s, doubling to 300 s. A successful pull does not reset the entry; the entry expires instead. */
export function afterFailedPull(entry: BackOffEntry | undefined, nowMs: number, { reason, message }: PullFailure): BackOffEntry {
  return { ...nextBackOff(entry, nowMs, nowMs), cause: `${reason}: ${message}` };
}

export interface ImageName {
  readonly tag?: string;
  readonly digest?: string;
}

const DOMAIN_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
const DOMAIN = `(?:${DOMAIN_PART}(?:\\.${DOMAIN_PART})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const PATH_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const TAG = "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}";
const DIGEST = "([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):([0-9a-fA-F]{32,})";
const REFERENCE = new RegExp(`^(?:${DOMAIN}/)?(${PATH_PART}(?:/${PATH_PART})*)(?::(${TAG}))?(?:@${DIGEST})?$`, "u");
/** Format of an image id, which is not allowed as an image name. */
const ID = /^[a-f0-9]{64}$/u;
const DIGEST_LENGTHS = new Map([
  ["sha256", 64],
  ["sha384", 96],
  ["sha512", 128],
]);
const PATH_LENGTH_MAX = 255;

/**
 * Parses tag and digest, or returns why the name is invalid:
 *
 *     foo → {}        localhost:5000/foo:v1 → { tag: "v1" }        foo@sha256:… → { digest: "sha256:…" }
 *     foo:, "foo bar" → { mistake: "invalid reference format" }
 *
 * Source: pkg/util/parsers/parsers.go ParseImageName; reference/normalize.go ParseNormalizedNamed, reference.go Parse.
 */
function parseImageName(image: string): ImageName | { readonly mistake: string } {
  if (ID.test(image)) return { mistake: `invalid repository name (${image}), cannot specify 64-byte hexadecimal strings` };
  const name = withDomain(image);
  const [repository = ""] = name.slice(name.indexOf("/") + 1).split(":");
  if (repository !== repository.toLowerCase())
    return { mistake: `invalid reference format: repository name (${repository}) must be lowercase` };
  const match = REFERENCE.exec(name);
  if (match === null) return { mistake: "invalid reference format" };
  const [, path = "", tag, algorithm, encoded = ""] = match;
  if (path.length > PATH_LENGTH_MAX) return { mistake: `repository name must not be more than ${PATH_LENGTH_MAX} characters` };
  const mistake = algorithm === undefined ? undefined : digestMistake(algorithm, encoded);
  if (mistake !== undefined) return { mistake };
  return { ...(tag !== undefined && { tag }), ...(algorithm !== undefined && { digest: `${algorithm}:${encoded}` }) };
}

function digestMistake(algorithm: string, encoded: string): string | undefined {
  const length = DIGEST_LENGTHS.get(algorithm);
  if (length === undefined) return "unsupported digest algorithm";
  if (encoded.length !== length) return "invalid checksum digest length";
  return encoded === encoded.toLowerCase() ? undefined : "invalid checksum digest format";
}

/** The first component is a registry if it has a dot, a port or an upper-case letter: `foo/bar` is on Docker Hub, `foo.test/bar` is not. */
function withDomain(image: string): string {
  const slash = image.indexOf("/");
  const first = image.slice(0, Math.max(slash, 0));
  const isDomain = slash > 0 && (/[.:]/u.test(first) || first !== first.toLowerCase());
  if (isDomain) return image;
  return `docker.io/${slash === -1 ? "library/" : ""}${image}`;
}

const DOCKER_HUB = "index.docker.io";
/** Aliases of Docker Hub. */
const DOCKER_HUB_NAMES = new Set(["docker.io", "registry-1.docker.io", DOCKER_HUB]);

interface DockerConfigEntry {
  readonly username?: string;
  readonly password?: string;
  readonly auth?: string;
  readonly identitytoken?: string;
  readonly registrytoken?: string;
}

/**
 * Returns the credentials to try, in order: by secret, and within a secret the most specific entry first. Invalid docker configurations
 * provide no credentials, and the pull fails.
 *
 *     image registry.test/team/web:1    entries registry.test/team, registry.test, *.test
 *
 * Source: pkg/credentialprovider/keyring.go BasicDockerKeyring Lookup, config.go.
 */
export function pullCredentials(image: string, secrets: readonly SecretData[]): readonly AuthConfig[] {
  const [host, path] = registryOf(image);
  return secrets.flatMap((secret) =>
    entriesOf(secret)
      .map(([key, entry]) => ({ pattern: patternOf(key), entry, key }))
      .filter(({ pattern }) => hostMatches(pattern.host, host) && `${path}/`.startsWith(pattern.path === "" ? "" : `${pattern.path}/`))
      .toSorted(
        (a, b) =>
          b.pattern.path.length - a.pattern.path.length || Number(a.pattern.host.includes("*")) - Number(b.pattern.host.includes("*")),
      )
      .map(({ entry, key }) => authOf(entry, key)),
  );
}

/** Returns registry and repository: `["registry.test", "team/web"]`. */
function registryOf(image: string): readonly [string, string] {
  const name = image.replace(/@.*$/u, "").replace(/:[^:/]*$/u, "");
  const slash = name.indexOf("/");
  const first = name.slice(0, Math.max(slash, 0));
  if (slash > 0 && (/[.:]/u.test(first) || first === "localhost")) return [canonicalHost(first), name.slice(slash + 1)];
  return [DOCKER_HUB, slash === -1 ? `library/${name}` : name];
}

function patternOf(key: string): { readonly host: string; readonly path: string } {
  const [host = "", ...path] = key.replace(/^https?:\/\//u, "").split("/");
  const repository = path.filter((part) => part !== "").join("/");
  // `https://index.docker.io/v1/` names an API version, not a repository.
  return { host: canonicalHost(host), path: /^v[12]$/u.test(repository) ? "" : repository };
}

function canonicalHost(host: string): string {
  return DOCKER_HUB_NAMES.has(host) ? DOCKER_HUB : host;
}

/** Whether the hosts match: `*` matches any characters within one label, `?` one character. The ports must be equal. */
function hostMatches(pattern: string, host: string): boolean {
  const parts = pattern.split(".");
  const own = host.split(".");
  return parts.length === own.length && parts.every((part, index) => partMatches(part, own[index] ?? ""));
}

/** Wildcards never match a colon, which precedes the port. */
function partMatches(pattern: string, part: string): boolean {
  const patterns = pattern.split(":");
  const own = part.split(":");
  return patterns.length === own.length && patterns.every((glob, index) => globMatches(glob, own[index] ?? ""));
}

function entriesOf({ data, type }: SecretData): readonly (readonly [string, DockerConfigEntry])[] {
  const [key, nested] = type === "kubernetes.io/dockercfg" ? [".dockercfg", false] : [".dockerconfigjson", true];
  try {
    const parsed = JSON.parse(Buffer.from(data?.[key] ?? "", "base64").toString("utf8")) as { readonly auths?: unknown }; // checked below
    const entries = nested ? parsed.auths : parsed;
    return typeof entries === "object" && entries !== null
      ? Object.entries(entries as Record<string, unknown>).map(([key, entry]) => [key, entryOf(entry)])
      : [];
  } catch {
    return [];
  }
}

/** Treats null as an empty entry or an absent field, as Go does. */
function entryOf(entry: unknown): DockerConfigEntry {
  return Object.fromEntries(Object.entries(entry ?? {}).filter(([, value]) => typeof value === "string"));
}

function authOf(entry: DockerConfigEntry, serverAddress: string): AuthConfig {
  const [username, password] = credentialsOf(entry);
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(entry.identitytoken !== undefined && { identityToken: entry.identitytoken }),
    ...(entry.registrytoken !== undefined && { registryToken: entry.registrytoken }),
    serverAddress,
  };
}

/** `auth` is base64 of `user:password` and overrides both fields. */
function credentialsOf({ auth, username, password }: DockerConfigEntry): readonly [string | undefined, string | undefined] {
  if (auth === undefined || auth === "") return [username, password];
  const padded = textOfBytes(Buffer.from(auth, "base64"));
  let end = padded.length;
  while (padded.charCodeAt(end - 1) === 0) end--; // this loop is linear; a regular expression would be quadratic
  const text = padded.slice(0, end);
  const colon = text.indexOf(":");
  return colon === -1 ? [username, password] : [text.slice(0, colon), text.slice(colon + 1)];
}
