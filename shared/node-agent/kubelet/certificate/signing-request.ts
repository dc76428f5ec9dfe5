/** CertificateSigningRequests of a node and their outcome (node-agent §14.6). Source: client-go util/certificate/csr/csr.go. */
import { createHash, type KeyObject } from "node:crypto";
import type { CertificateTemplate } from "./certificate-request.ts";

/** Source: k8s.io/api certificates/v1 types.go. */
export type SignerName = "kubernetes.io/kube-apiserver-client-kubelet" | "kubernetes.io/kubelet-serving";
export type KeyUsage = "digital signature" | "key encipherment" | "client auth" | "server auth";

/**
 * The key usages to request; RSA keys add encipherment. Source: certificate_manager.go DefaultKubeletClientGetUsages,
 * DefaultKubeletServingGetUsages.
 */
export function usagesOf(signerName: SignerName, key: KeyObject): readonly KeyUsage[] {
  const purpose = signerName === "kubernetes.io/kubelet-serving" ? "server auth" : "client auth";
  return ["digital signature", ...(key.asymmetricKeyType === "rsa" ? (["key encipherment"] as const) : []), purpose];
}

export function signingRequest(given: {
  readonly name: string;
  /** PKCS #10 request in PEM. */
  readonly request: string;
  readonly signerName: SignerName;
  readonly usages: readonly KeyUsage[];
}): object {
  const { name, request, signerName, usages } = given;
  return {
    apiVersion: "certificates.k8s.io/v1",
    kind: "CertificateSigningRequest",
    metadata: { name },
    spec: { request: Buffer.from(request).toString("base64"), signerName, usages },
  };
}

/**
 * The name of the bootstrap request. It depends on the key, so that the agent finds its request again after an interrupted start. Source:
 * pkg/kubelet/certificate/bootstrap/bootstrap.go digestedName, requestNodeCertificate.
 */
export function joiningRequestName({ commonName, organizations }: CertificateTemplate, publicKey: KeyObject): string {
  const purposes = publicKey.asymmetricKeyType === "rsa" ? ["client auth", "key encipherment"] : ["client auth"];
  const fields = [publicKey.export({ type: "spki", format: "der" }), commonName, ...organizations, "digital signature", ...purposes];
  const stream = fields.map((field) => `${Buffer.from(field).toString("base64url")}|`).join("");
  return `node-csr-${createHash("sha512-256").update(stream).digest("base64url")}`;
}

export type SigningOutcome =
  | { readonly kind: "issued"; readonly certificate: string }
  | { readonly kind: "waiting" }
  | { readonly kind: "refused"; readonly why: string };

interface SigningRequestLike {
  readonly metadata?: { readonly name?: string; readonly uid?: string };
  readonly spec?: { readonly request?: string; readonly signerName?: string };
  readonly status?: {
    readonly certificate?: string;
    readonly conditions?: readonly { readonly type: string; readonly reason?: string; readonly message?: string }[];
  };
}

/** Returns the outcome of the request with this `uid`. Source: csr.go WaitForCertificate. */
export function signingOutcome(object: unknown, uid: string): SigningOutcome {
  const { metadata, status } = object as SigningRequestLike; // the API server returns a CertificateSigningRequest
  if (metadata?.uid !== uid) return { kind: "refused", why: `csr "${metadata?.name}" changed UIDs` };
  const { conditions = [], certificate = "" } = status ?? {};
  for (const { type, reason, message } of conditions) {
    const details = `reason: ${reason}, message: ${message}`;
    if (type === "Denied") return { kind: "refused", why: `certificate signing request is denied, ${details}` };
    if (type === "Failed") return { kind: "refused", why: `certificate signing request failed, ${details}` };
  }
  const isApproved = conditions.some(({ type }) => type === "Approved");
  if (!isApproved || certificate === "") return { kind: "waiting" };
  return { kind: "issued", certificate: Buffer.from(certificate, "base64").toString() };
}

/** Returns the request (in PEM) and its signer. */
export function requestIn(object: unknown): { readonly request: string; readonly signerName: string | undefined } {
  const { spec } = object as SigningRequestLike; // the API server returns a CertificateSigningRequest
  return { request: Buffer.from(spec?.request ?? "", "base64").toString(), signerName: spec?.signerName };
}
