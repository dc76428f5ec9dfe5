export { canonicalise, setDefaultsPodSpec, setObjectDefaultsPod } from "./pod-template/defaulting-pod.ts";
export { DecodeError, decodePod } from "./pod-template/decode-pod.ts";
export { createDigester } from "./pod-template/digest.ts";
export type { Digester } from "./pod-template/digest.ts";
export { normalise, normaliseDeploymentStatus } from "./pod-template/normalise.ts";
export { podTemplateHash } from "./pod-template/pod-template-hash.ts";
