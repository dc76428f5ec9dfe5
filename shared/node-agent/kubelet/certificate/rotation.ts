/** Certificate rotation (node-agent §14.6). */
import type { V1Node } from "@kubernetes/client-node";
import type { Wire } from "@deltaloop/kube/objects";
import { isAddress, isSameAddress, type CertificateFacts, type CertificateTemplate } from "./certificate-request.ts";

const ROTATED_FROM = 0.7;
const ROTATION_SPREAD = 0.2;

/**
 * The time after 70 to 90 % of the lifetime, so that nodes that joined together do not renew together.
 *
 *     from 0 s to 100 s, random 0 → 70 s, 0.5 → 80 s, 0.999 → 89.98 s
 *
 * Source: client-go util/certificate/certificate_manager.go nextRotationDeadline, jitteryDuration.
 */
export function rotationDeadlineMs({ notBeforeMs, notAfterMs }: CertificateFacts, random: number): number {
  return notBeforeMs + (notAfterMs - notBeforeMs) * (ROTATED_FROM + ROTATION_SPREAD * random);
}

/** Whether the certificate covers the template; it may cover more. Source: certificate_manager.go certSatisfiesTemplateLocked. */
export function satisfies(certificate: CertificateFacts, template: CertificateTemplate | undefined): boolean {
  if (template === undefined) return true;
  return (
    certificate.commonName === template.commonName &&
    template.organizations.every((name) => certificate.organizations.includes(name)) &&
    template.dnsNames.every((name) => certificate.dnsNames.includes(name)) &&
    template.ipAddresses.every((address) => certificate.ipAddresses.some((one) => isSameAddress(one, address)))
  );
}

export function sameTemplate(one: CertificateTemplate | undefined, other: CertificateTemplate | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The template of the node's client certificate. Source: pkg/kubelet/certificate/kubelet.go NewKubeletClientCertificateManager. */
export function clientTemplate(nodeName: string): CertificateTemplate {
  return { commonName: `system:node:${nodeName}`, organizations: ["system:nodes"], dnsNames: [], ipAddresses: [] };
}

type NodeAddresses = NonNullable<NonNullable<Wire<V1Node>["status"]>["addresses"]>;

/**
 * The template of the node's serving certificate; undefined without an address. Source: kubelet.go newGetTemplateFn,
 * addressesToHostnamesAndIPs.
 */
export function servingTemplate(nodeName: string, addresses: NodeAddresses): CertificateTemplate | undefined {
  const named = addresses.filter(({ address }) => address !== "");
  const ipAddresses = named.flatMap(({ type, address }) => (isAddress(address) && !type.endsWith("DNS") ? [address] : []));
  const dnsNames = named.flatMap(({ type, address }) =>
    type.endsWith("DNS") || (type === "Hostname" && !isAddress(address)) ? [address] : [],
  );
  if (ipAddresses.length === 0) return undefined;
  const inOrder = (names: readonly string[]): readonly string[] => [...new Set(names)].toSorted();
  return { ...clientTemplate(nodeName), dnsNames: inOrder(dnsNames), ipAddresses: inOrder(ipAddresses) };
}
