export { HistoryRegressedError, ListWatch } from "./list-watch/list-watch.ts";
export type { Listener, Listing } from "./list-watch/list-watch.ts";
export { FRESH_BACKOFF, stepBackoff } from "./list-watch/reflector-backoff.ts";
export type { Backoff } from "./list-watch/reflector-backoff.ts";
export { parseWatchLine } from "./list-watch/watch-line.ts";
