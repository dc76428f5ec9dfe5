export { functionsOf } from "./registry/functions.ts";
export type { FunctionEntry } from "./registry/functions.ts";
export {
  CANARY,
  doorbellsVariable,
  kubeSecret,
  logicalName,
  NAMESPACE,
  pascalCase,
  secretName,
  serviceAccount,
  syncFunction,
  watcherLease,
} from "./registry/names.ts";
export { parameterTexts } from "./registry/parameter-texts.ts";
export { cacheOf, gatewayContractOf } from "./registry/cache-of.ts";
export type { ControllerEntry, Registry } from "./registry/cache-of.ts";
export { CORE_CACHE, REGISTRY } from "./registry/registry.ts";
export { redisAccessOf } from "./registry/redis-access.ts";
export { ROLES, rolesOf } from "./registry/rights.ts";
export type { Role, Rule } from "./registry/rights.ts";
export { PROFILES } from "./registry/profiles.ts";
export { COUNTED, PARAMETERS, madeOf, stackOf } from "./registry/stack.ts";
export type { Made, Stack } from "./registry/stack.ts";
