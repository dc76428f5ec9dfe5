export { CertificateManager, reportUnmanagedCertificates } from "./certificates/certificate-manager.ts";
export { joinCluster } from "./certificates/join-cluster.ts";
export type { PendingKey } from "./certificates/join-cluster.ts";
export type { SigningKube } from "./certificates/request-certificate.ts";
