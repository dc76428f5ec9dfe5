export { closedReplay } from "./closed/closed.ts";
export type { ClosedEnd } from "./closed/closed.ts";
export { SeenLife } from "./closed/life.ts";
export type { UserRequest } from "./closed/user-requests.ts";
export { replay } from "./engine/replay.ts";
export type { ReplayOptions, ReplaySummary } from "./engine/replay.ts";
export type { ReplayedSync } from "./engine/sync-log.ts";
