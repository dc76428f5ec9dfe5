export type { Clock } from "./clock.ts";
export { exactNumber, exactText, NestingError, parseExact, parseRounded } from "./exact-json.ts";
export { parseGoDuration } from "./go-duration.ts";
export { deepFreeze } from "./freeze.ts";
export {
  clone,
  jsonCopy,
  compareText,
  ensureObject,
  frozenText,
  isObject,
  jsonEqual,
  listAt,
  metaOf,
  nameOf,
  namespaceOf,
  numberAt,
  objectAt,
  objectsAt,
  ownAt,
  semanticEqual,
  setOwn,
  stringMap,
  textAt,
} from "./json.ts";
export type { Json, JsonObject } from "./json.ts";
export { boundedFields } from "./log.ts";
export type { Log, LogFields } from "./log.ts";
export type { Random } from "./random.ts";
export { retryBudgetUntil } from "./retry-budget.ts";
export type { RetryBudget } from "./retry-budget.ts";
export { createSlots } from "./slots.ts";
export {
  ANSWER_RESERVE_MS,
  APPLIER_REQUEST_TIMEOUT_MS,
  APPLIER_WAIT_MS_MAX,
  AUDIT_MS,
  AUDIT_SETTLE_MS,
  BATCHING_WINDOW_MS_MAX,
  CHECKPOINT_MS,
  QUIET_CHECKPOINT_MS,
  CLOCK_TRUST_MS,
  EPOCH_GRACE_FULL_MS,
  EPOCH_GRACE_MS,
  EVENT_WAIT_MS_MAX,
  EXPECTATION_MS,
  FORGET_PERIOD_MS,
  FULL_SETTLE_MS,
  FUNCTION_TIMEOUT_SECONDS,
  HEARTBEAT_TIMEOUT_MS,
  HEARTBEAT_WAIT_MS_MAX,
  HOLE_LIMIT_MS,
  HOLE_RELIST_MS,
  LEASE_CALL_TIMEOUT_MS,
  LEASE_CALL_WAIT_MS_MAX,
  LEASE_MS,
  MAY_LAND_MS,
  NODE_CALL_WAIT_MS_MAX,
  OP_DEADLINE_MS,
  QUEUE_TIMEOUT_MS,
  REDIS_COMMAND_TIMEOUT_MS,
  REDIS_CONNECT_TIMEOUT_MS,
  RENEWAL_MS,
  REPLICA_WAIT_MS,
  REQUEST_TIMEOUT_MS,
  RESYNC_MS,
  RESYNC_SPREAD_MS,
  RETRY_WAIT_MS_MAX,
  RUNG_WITHIN_MS,
  SECRET_MS_MAX,
  SWEEP_PERIOD_MS,
  UPKEEP_TICK_MS,
  VISIBILITY_SECONDS,
  WRITE_MARGIN_MS,
} from "./times.ts";
export { takeToken } from "./token-bucket.ts";
export type { TokenBucket } from "./token-bucket.ts";
export { unlessAborted } from "./unless-aborted.ts";
export { UsageError, bytes, collected, duration, redisUrl, trueOrFalse, wholeNumber } from "./usage-error.ts";
export { bytesOfText, textOfBytes } from "./byte-text.ts";
export { VERSION } from "./version.ts";
export type { OwnName } from "./own-name.ts";
