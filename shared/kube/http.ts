export { createClient } from "./http/client.ts";
export type { KubeClient } from "./http/client.ts";
export { showsToken } from "./http/config.ts";
export type { ClientCertificate, KubeHttpConfig } from "./http/config.ts";
export { createKubeCalls } from "./http/kube-calls.ts";
export { createKubeHttp, kubeOver } from "./http/kube-http.ts";
export { createLineSplitter } from "./http/line-splitter.ts";
export { statusError } from "./http/status-error.ts";
