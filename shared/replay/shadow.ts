export { MissingCensus, changesIn } from "./shadow/change-stream.ts";
export type { Verdict } from "./shadow/classify.ts";
export { LiveShadow } from "./shadow/live.ts";
export type { SyncPlace } from "./shadow/one-sync.ts";
export { RecordedShadow } from "./shadow/recorded.ts";
export type { Finding } from "./shadow/recorded.ts";
export { nearestDifferences } from "./shadow/nearest-differences.ts";
export { labelOf, writesOfAudit } from "./shadow/upstream-writes.ts";
export type { UpstreamWrite } from "./shadow/upstream-writes.ts";
