/** Sources of projected volumes with objects of their own: ClusterTrustBundles and PodCertificateRequests (node-agent §10). */
import type { KubeObject } from "@deltaloop/kube/objects";
import type { VolumeSpec } from "./pod.ts";

type Source = NonNullable<NonNullable<VolumeSpec["projected"]>["sources"]>[number];

/** A podCertificate source of a pod; `index` is its position in the volume. */
export interface CertificateSource {
  readonly volume: string;
  readonly index: number;
  readonly source: NonNullable<Source["podCertificate"]>;
}

/** A private key and the certificates issued for it, PEM. */
export interface KeyAndChain {
  readonly privateKey: string;
  readonly certificateChain: string;
}

export type TrustBundleSource = NonNullable<Source["clusterTrustBundle"]>;

/** The fields of a ClusterTrustBundle that the agent reads. */
export interface TrustBundle extends KubeObject {
  readonly spec: { readonly signerName?: string; readonly trustBundle: string };
}
