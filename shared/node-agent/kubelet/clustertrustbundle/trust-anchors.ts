/** Trust anchors of ClusterTrustBundles (node-agent §10). Source: pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go. */
import { createHash } from "node:crypto";
import { compileSelector, formatSelector, matches } from "@deltaloop/kube/selectors";
import type { Selector } from "@deltaloop/kube/selectors";
import { certificateBlocks, pemBlock } from "../certificate/pem.ts";
import type { TrustBundle, TrustBundleSource } from "../types/projected-sources.ts";
import { VolumeError } from "../types/volume-error.ts";

/** Characters of a label selector's text. */
const SELECTOR_LENGTH_MAX = 100 * 1024;

/** Selects the bundles to list for a source. @throws {VolumeError} if the source has neither name nor signer */
export function bundleSelector({ name, signerName }: TrustBundleSource): string {
  if (name !== undefined) return `metadata.name=${name}`;
  if (signerName !== undefined) return `spec.signerName=${signerName}`;
  throw new VolumeError("ClusterTrustBundle projection requires either name or signerName to be set");
}

/**
 * The PEM text of a source's file. @param bundles those that `bundleSelector` selects; undefined if the API server does not serve them
 *
 * @param salt determines the order @throws {VolumeError} with upstream's text
 */
export function trustAnchors(source: TrustBundleSource, bundles: readonly TrustBundle[] | undefined, salt: string): string {
  // Upstream's manager without the API is the one of a kubelet without an API server, which explains its text.
  if (bundles === undefined) throw new VolumeError("ClusterTrustBundle projection is not supported in static kubelet mode");
  const { name, labelSelector, optional = false } = source;
  if (name !== undefined) {
    if (bundles.length === 0 && !optional)
      throw new VolumeError(`while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "${name}" not found`);
    return normalize(bundles, salt);
  }
  const selector = selectorOf(labelSelector);
  const selected = bundles.filter(({ metadata }) => matches(selector, metadata.labels));
  if (selected.length === 0 && !optional)
    throw new VolumeError("combination of signerName and labelSelector matched zero ClusterTrustBundles");
  return normalize(selected, salt);
}

/** An absent selector matches nothing. @throws {VolumeError} */
function selectorOf(labelSelector: TrustBundleSource["labelSelector"]): Selector {
  const selector = compileSelector(labelSelector);
  if (selector.kind === "Invalid") throw new VolumeError(`while parsing label selector: ${selector.message}`);
  const { length } = formatSelector(selector);
  if (length > SELECTOR_LENGTH_MAX) throw new VolumeError(`label selector length (${length}) is larger than ${SELECTOR_LENGTH_MAX}`);
  return selector;
}

/**
 * Distinct certificates in an order that depends only on them and on `salt`, so that no program relies on it.
 * Differs from upstream, which shuffles again after 5 minutes or a change.
 */
function normalize(bundles: readonly TrustBundle[], salt: string): string {
  const rank = (der: Buffer): string => createHash("sha256").update(salt).update(der).digest("hex");
  const byRank = new Map(bundles.flatMap(({ spec }) => certificateBlocks(spec.trustBundle)).map((der) => [rank(der), der] as const));
  return [...byRank]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, der]) => pemBlock("CERTIFICATE", der))
    .join("");
}
