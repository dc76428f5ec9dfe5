export { resolveFenceposts } from "./deployment/max-surge-max-unavailable.ts";
export type { DeploymentReason } from "./deployment/reasons.ts";
export { DEPLOYMENT_KEYS, syncDeployment } from "./deployment/sync/sync.ts";
