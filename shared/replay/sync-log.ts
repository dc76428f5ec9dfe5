export { SyncLog } from "./engine/sync-log.ts";
export type { ReplayedSync } from "./engine/sync-log.ts";
