export { failureOfCode, SyncFailure } from "./own/failures.ts";
export { seenThrough } from "./own/observed.ts";
export { ownControllers, registryOf, unsupportedBy } from "./own/registry.ts";
export type { OwnControllerEntry } from "./own/registry.ts";
export { resourceOfKind } from "./own/resources.ts";
export { durationMs, ownKeySync } from "./own/sync.ts";
export type { OwnCall, OwnFunctions, OwnReport } from "./own/sync.ts";
export type { OwnViewOf } from "./own/views.ts";
