/** Generates the files of configMap, secret, downwardAPI and projected volumes (node-agent §10). */
import type { KeyAndChain, TrustBundleSource } from "../types/projected-sources.ts";
import type { VolumeFile } from "../../ports/node-files.ts";
import { podFieldText, resourceFieldText } from "./downward-api.ts";
import { VolumeError } from "../types/volume-error.ts";
import type { ReferencedObjects } from "../types/referenced-objects.ts";
import type { NodeResources } from "../types/node-options.ts";
import { initContainersOf, type NodePod, type VolumeSpec } from "../types/pod.ts";
import { fsGroupOf } from "./volumes.ts";

/** The API's default for `defaultMode`. */
const MODE_DEFAULT = 0o644;
/** Mode of a token file with a single owner; with fsGroup, it is widened to 0640. */
const TOKEN_MODE = 0o600;
const TOKEN_EXPIRATION_SECONDS = 3600;

export interface PayloadInput {
  readonly pod: NodePod;
  readonly volume: VolumeSpec;
  readonly objects: ReferencedObjects;
  readonly allocatable: NodeResources;
  /** Returns a token that was requested in advance (tokensOf). */
  token(request: TokenSpec): string;
  /** Returns PEM. @throws {VolumeError} */
  trustAnchors(source: TrustBundleSource): string;
  /** The key and certificates of the volume's podCertificate source at `index`. @throws {VolumeError} */
  credential(index: number): KeyAndChain;
}

/** An empty audience means the API server. */
export interface TokenSpec {
  readonly audience: string;
  readonly expirationSeconds: number;
}

type Projected = NonNullable<VolumeSpec["projected"]>;
type Source = NonNullable<Projected["sources"]>[number];
type Items = NonNullable<NonNullable<VolumeSpec["configMap"]>["items"]>;
type FieldItems = NonNullable<NonNullable<VolumeSpec["downwardAPI"]>["items"]>;
/** Files by path. If two sources have the same path, the later one wins. The API server rejects conflicts that it can detect. */
type Payload = ReadonlyMap<string, VolumeFile>;

/**
 * Returns the files of one volume. @throws {VolumeError} naming object and key, e.g. `configmap "x" not found`; shown in the FailedMount
 * event
 * Source: pkg/volume/{configmap,secret} MakePayload, pkg/volume/downwardapi CollectData, pkg/volume/projected collectData.
 */
export function volumePayload(input: PayloadInput): readonly VolumeFile[] {
  const { configMap, secret, downwardAPI, projected } = input.volume;
  const sources: readonly Source[] =
    projected?.sources ??
    (configMap && [{ configMap }]) ??
    (secret && [{ secret: { ...secret, name: secret.secretName ?? "" } }]) ??
    (downwardAPI && [{ downwardAPI }]) ??
    [];
  const mode = (projected ?? configMap ?? secret ?? downwardAPI)?.defaultMode ?? MODE_DEFAULT;
  const payloads = collect(sources.map((source, index) => () => sourcePayload(input, source, { index, mode })));
  return [...new Map(payloads.flatMap((payload) => [...payload])).values()];
}

/** Returns all tokens in the pod's volumes. */
export function tokensOf(pod: NodePod): readonly { readonly volume: string; readonly spec: TokenSpec }[] {
  return (pod.spec.volumes ?? []).flatMap(({ name, projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken }) =>
      serviceAccountToken ? [{ volume: name, spec: tokenSpec(serviceAccountToken) }] : [],
    ),
  );
}

function sourcePayload(input: PayloadInput, source: Source, { index, mode }: { readonly index: number; readonly mode: number }): Payload {
  const { configMap, secret, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate } = source;
  if (configMap) {
    const { name = "", items, optional = false } = configMap;
    const { data = {}, binaryData = {} } = found(input.objects.configMap(name), `configmap "${name}" not found`, optional);
    const contents = new Map([...entries(binaryData, decode), ...entries(data, encode)]);
    return keyFiles(contents, items, { mode, optional, missing: "configmap references non-existent config key" });
  }
  if (secret) {
    const { name = "", items, optional = false } = secret;
    const { data = {} } = found(input.objects.secret(name), `secret "${name}" not found`, optional);
    return keyFiles(new Map(entries(data, decode)), items, { mode, optional, missing: "references non-existent secret key" });
  }
  if (downwardAPI) return fieldFiles(input, downwardAPI.items ?? [], mode);
  if (serviceAccountToken) return ownedFiles(input.pod, mode, [[serviceAccountToken.path, input.token(tokenSpec(serviceAccountToken))]]);
  if (clusterTrustBundle) return ownedFiles(input.pod, mode, [[clusterTrustBundle.path, input.trustAnchors(clusterTrustBundle)]]);
  if (podCertificate) {
    const { privateKey, certificateChain } = input.credential(index);
    return ownedFiles(input.pod, mode, [
      [podCertificate.credentialBundlePath, privateKey + certificateChain],
      [podCertificate.keyPath, privateKey],
      [podCertificate.certificateChainPath, certificateChain],
    ]);
  }
  return new Map();
}

/** Files of the user of the pod; an empty or absent path is no file. */
function ownedFiles(pod: NodePod, mode: number, contents: readonly (readonly [string | undefined, string])[]): Payload {
  const owner = tokenOwner(pod, mode);
  return new Map(contents.flatMap(([path = "", text]) => (path === "" ? [] : [[path, { path, content: encode(text), ...owner }]])));
}

function found<T extends object>(object: T | undefined, message: string, optional: boolean): T | Record<string, never> {
  if (object === undefined && !optional) throw new VolumeError(message);
  return object ?? {};
}

/** Returns the files for all keys, or only for the keys in `items`, under their paths. */
function keyFiles(
  contents: ReadonlyMap<string, Uint8Array>,
  items: Items | undefined,
  { mode, optional, missing }: { readonly mode: number; readonly optional: boolean; readonly missing: string },
): Payload {
  if (items === undefined || items.length === 0)
    return new Map([...contents].map(([path, content]) => [path, { path, content, mode }] as const));
  const files = new Map<string, VolumeFile>();
  for (const { key, path, mode: own } of items) {
    const content = contents.get(key);
    if (content !== undefined) files.set(path, { path, content, mode: own ?? mode });
    else if (!optional) throw new VolumeError(`${missing}: ${key}`);
  }
  return files;
}

function fieldFiles({ pod, allocatable }: PayloadInput, items: FieldItems, mode: number): Payload {
  const texts = items.map(({ path, fieldRef, resourceFieldRef, mode: own = mode }) => (): readonly [string, VolumeFile] => {
    const text = fieldRef
      ? podFieldText(pod, fieldRef.fieldPath)
      : resourceFieldRef
        ? resourceFieldText(pod, resourceFieldRef, allocatable)
        : "";
    return [path, { path, content: encode(text), mode: own }];
  });
  return new Map(collect(texts));
}

function tokenSpec({ audience = "", expirationSeconds = TOKEN_EXPIRATION_SECONDS }: Partial<TokenSpec>): TokenSpec {
  return { audience, expirationSeconds };
}

/**
 * Returns owner and mode of a file of tokens, trust anchors or certificates. If all containers run as the same user, it is owned by that
 * user. Otherwise, access depends on fsGroup or on the volume's mode. Source: pkg/volume/projected collectData; pkg/volume/util FsUserFrom.
 */
function tokenOwner(pod: NodePod, mode: number): { readonly mode: number; readonly uid?: number } {
  const containers = [...initContainersOf(pod), ...pod.spec.containers];
  const users = new Set(containers.map(({ securityContext }) => securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser));
  const [uid] = users;
  if (users.size === 1 && uid !== undefined) return { mode: TOKEN_MODE, uid };
  return { mode: fsGroupOf(pod) === undefined ? mode : TOKEN_MODE };
}

/** Returns all results, or throws one error with all problems. Source: errors.NewAggregate. */
function collect<T>(steps: readonly (() => T)[]): readonly T[] {
  const results: T[] = [];
  const messages = new Set<string>();
  for (const step of steps) {
    try {
      results.push(step());
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      messages.add(error.message);
    }
  }
  const [first, ...others] = messages;
  if (first !== undefined) throw new VolumeError(others.length === 0 ? first : `[${[first, ...others].join(", ")}]`);
  return results;
}

function entries(data: Readonly<Record<string, string>>, read: (text: string) => Uint8Array): readonly (readonly [string, Uint8Array])[] {
  return Object.entries(data).map(([key, text]) => [key, read(text)] as const);
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function decode(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, "base64"));
}

/** Maximum age of a token; older tokens are renewed. */
const AGE_MAX_MS = 24 * 60 * 60 * 1_000;
/** Maximum jitter, which spreads the renewals of tokens that were issued together. */
const JITTER_MAX_MS = 10_000;

/**
 * Returns the renewal time: at 80 % of the lifetime or after 24 hours, minus up to 10 s:
 *
 *     life 1 h,  random 0   → 48 min after it was issued
 *     life 1 h,  random 0.5 → 47 min 55 s
 *     life 48 h, random 0   → 24 h
 *
 * @param random in [0, 1) Source: pkg/kubelet/token/token_manager.go requiresRefresh. Differs from upstream: jitter is drawn once per
 * token, and not truncated to seconds.
 */
export function tokenRenewalAtMs(issuedAtMs: number, expiresAtMs: number, random: number): number {
  const ofLifeMs = expiresAtMs - (expiresAtMs - issuedAtMs) / 5;
  return Math.min(ofLifeMs, issuedAtMs + AGE_MAX_MS) - random * JITTER_MAX_MS;
}
