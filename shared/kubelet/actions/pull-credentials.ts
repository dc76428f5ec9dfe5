/** With what an image may be pulled (node-agent §8): the entries of the pod's pull secrets that are meant for its registry. */
import type { AuthConfig } from "../../ports/cri-types.ts";
import type { SecretData } from "../kuberuntime/environment.ts";

const DOCKER_HUB = "index.docker.io";
/** Names under which people and `docker login` write it. */
const DOCKER_HUB_NAMES = new Set(["docker.io", "registry-1.docker.io", DOCKER_HUB]);

interface DockerConfigEntry {
  readonly username?: string;
  readonly password?: string;
  readonly auth?: string;
  readonly identitytoken?: string;
  readonly registrytoken?: string;
}

/**
 * In the order in which they are tried: by secret, and in one secret the most exact entry first. What is no docker configuration
 * gives none; the pull then fails by itself and says so.
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

/** Registry and repository: `["registry.test", "team/web"]`. */
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
  // `https://index.docker.io/v1/` and the like name an API, not a repository.
  return { host: canonicalHost(host), path: /^v[12]$/u.test(repository) ? "" : repository };
}

function canonicalHost(host: string): string {
  return DOCKER_HUB_NAMES.has(host) ? DOCKER_HUB : host;
}

/** `*` stands for any characters within one part of a name; the port must be the same. */
function hostMatches(pattern: string, host: string): boolean {
  const parts = pattern.split(".");
  const own = host.split(".");
  return parts.length === own.length && parts.every((part, index) => partMatches(part, own[index] ?? ""));
}

function partMatches(pattern: string, part: string): boolean {
  const escaped = pattern.split("*").map((text) => text.replaceAll(/[\\^$+?.()|[\]{}]/gu, String.raw`\$&`));
  return new RegExp(`^${escaped.join("[^.:]*")}$`, "u").test(part);
}

function entriesOf({ data, type }: SecretData): readonly (readonly [string, DockerConfigEntry])[] {
  const [key, nested] = type === "kubernetes.io/dockercfg" ? [".dockercfg", false] : [".dockerconfigjson", true];
  try {
    const parsed = JSON.parse(Buffer.from(data?.[key] ?? "", "base64").toString("utf8")) as { readonly auths?: unknown }; // looked at below
    const entries = nested ? parsed.auths : parsed;
    return typeof entries === "object" && entries !== null ? Object.entries(entries as Record<string, DockerConfigEntry>) : []; // docker's own format
  } catch {
    return [];
  }
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

/** `auth` is base64 of `user:password`, and stands above the two fields. */
function credentialsOf({ auth, username, password }: DockerConfigEntry): readonly [string | undefined, string | undefined] {
  if (auth === undefined || auth === "") return [username, password];
  const text = Buffer.from(auth, "base64").toString("utf8").replace(/\0+$/u, "");
  const colon = text.indexOf(":");
  return colon === -1 ? [username, password] : [text.slice(0, colon), text.slice(colon + 1)];
}
