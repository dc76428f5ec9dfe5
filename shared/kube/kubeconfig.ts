export { environmentOfOthers } from "./kubeconfig/environment-of-others.ts";
export { contextOf, pinContext, kubeAccess } from "./kubeconfig/kube-access.ts";
export type { KubeFlags } from "./kubeconfig/kube-access.ts";
export { absolutePaths, kubeconfigPath } from "./kubeconfig/kubeconfig-path.ts";
export { certificatePlaces, kubeHttpConfigFrom, kubeconfigForCertificate, namespaceOf } from "./kubeconfig/kubeconfig.ts";
export type { CertificatePlaces } from "./kubeconfig/kubeconfig.ts";
export { certificatesIn } from "./kubeconfig/pem.ts";
export { requestToken } from "./kubeconfig/token-request.ts";
