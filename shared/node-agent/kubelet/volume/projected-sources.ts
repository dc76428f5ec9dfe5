/** Tokens, trust anchors and certificates of projected volumes, read before the volume's files are written (node-agent §10). */
import { bundleSelector, trustAnchors } from "../clustertrustbundle/trust-anchors.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { KeyAndChain, TrustBundleSource } from "../types/projected-sources.ts";
import type { NodePod, VolumeSpec } from "../types/pod.ts";
import { VolumeError } from "../types/volume-error.ts";
import { tokenRenewalAtMs, tokensOf, type PayloadInput, type TokenSpec } from "./volume-payload.ts";

type Ports = Pick<NodePorts, "objects" | "podCertificates" | "condition">;
/** A value, or the error of its source, which is reported together with those of the other sources. */
type Result<T> = { readonly value: T } | { readonly error: VolumeError };

export type ProjectedSources = Pick<PayloadInput, "token" | "trustAnchors" | "credential">;

/** Reads what the volume's sources need; nothing for other volumes. @throws the API server's error */
export async function readProjectedSources(ports: Ports, pod: NodePod, volume: VolumeSpec): Promise<ProjectedSources> {
  const sources = volume.projected?.sources ?? [];
  const bundles = sources.flatMap(({ clusterTrustBundle }) => clusterTrustBundle ?? []);
  const certificates = sources.flatMap(({ podCertificate }, index) => (podCertificate ? [{ index, source: podCertificate }] : []));
  const [tokens, anchors, credentials] = await Promise.all([
    requestTokens(ports, pod, volume.name),
    byKey(bundles, async (source) => [source, await resultOf(() => readTrustAnchors(ports, source))]),
    byKey(certificates, async ({ index, source }) => {
      const current = (): Promise<KeyAndChain> => ports.podCertificates.current(pod, { volume: volume.name, index, source });
      return [index, await resultOf(current)];
    }),
  ]);
  return {
    token: (spec) => tokens.get(tokenKey(spec)) ?? "",
    trustAnchors: (source) => valueOf(anchors.get(source)),
    credential: (index) => valueOf(credentials.get(index)),
  };
}

/** The order of the certificates changes with each start of the agent. */
async function readTrustAnchors({ objects, condition }: Ports, source: TrustBundleSource): Promise<string> {
  const bundles = await objects.trustBundles(bundleSelector(source));
  return trustAnchors(source, bundles, String(condition.startedAtMs));
}

async function requestTokens(ports: Pick<NodePorts, "objects">, pod: NodePod, volume: string): Promise<ReadonlyMap<string, string>> {
  const { namespace, name, uid } = pod.metadata;
  const serviceAccount = pod.spec.serviceAccountName ?? "default";
  const wanted = tokensOf(pod).filter((token) => token.volume === volume);
  return await byKey(wanted, async ({ spec }) => {
    // Derived from the UID, so that a token's renewal time is stable.
    const spread = fractionOf(uid);
    const token = await ports.objects.token({ namespace, serviceAccount, ...spec, pod: { name, uid } }, (held) =>
      tokenRenewalAtMs(held.issuedAtMs, held.expiresAtMs, spread),
    );
    return [tokenKey(spec), token.token];
  });
}

function tokenKey({ audience, expirationSeconds }: TokenSpec): string {
  return `${expirationSeconds} ${audience}`;
}

/** A stable pseudo-random number in [0, 1) for a UID. */
function fractionOf(uid: string): number {
  return (Number.parseInt(uid.replaceAll("-", "").slice(0, 8), 16) || 0) / 2 ** 32;
}

async function byKey<S, K, V>(sources: readonly S[], read: (source: S) => Promise<readonly [K, V]>): Promise<ReadonlyMap<K, V>> {
  return new Map(await Promise.all(sources.map(read)));
}

async function resultOf<T>(read: () => Promise<T>): Promise<Result<T>> {
  try {
    return { value: await read() };
  } catch (error) {
    if (error instanceof VolumeError) return { error };
    throw error;
  }
}

function valueOf<T>(result: Result<T> | undefined): T {
  if (result === undefined) throw new Error("a source of the volume was not read");
  if ("error" in result) throw result.error;
  return result.value;
}
