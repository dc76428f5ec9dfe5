export { ownControllers, registryOf, unsupportedBy } from "./own/registry.ts";
export type { OwnControllerEntry } from "./own/registry.ts";
export { resourceOfKind } from "./own/resources.ts";
export { ownKeySync } from "./own/sync.ts";
export type { OwnCall, OwnFunctions, OwnReport } from "./own/sync.ts";
