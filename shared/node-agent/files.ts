export { createCertificateFiles } from "./node-files/certificate-store.ts";
export type { CertificateFiles } from "./node-files/certificate-store.ts";
export { createNodeFiles } from "./node-files/node-files.ts";
