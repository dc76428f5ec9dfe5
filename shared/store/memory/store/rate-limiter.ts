/**
 * The work queue's rate limiter: exponential back-off per key, and one token bucket for all retries of a controller; the longer delay
 * applies. Redis: scripts/lib/ending.lua.
 *
 * Source: client-go util/workqueue DefaultTypedControllerRateLimiter, ItemExponentialFailureRateLimiter, BucketRateLimiter.
 */
import type { QueueData } from "./data.ts";

const BACKOFF_MS_MIN = 5;
const BACKOFF_MS_MAX = 1_000_000;
/** 10 retries a second, 100 at once. */
const BUCKET_INTERVAL_MS = 100;
const BUCKET_BURST = 100;

/** The delay in ms after the nth consecutive failure: 5, 10, 20 … 1,000,000, or more if the bucket is in debt. */
export function retryDelayMs(queue: QueueData, failures: number, nowMs: number): number {
  return Math.max(Math.min(BACKOFF_MS_MIN * 2 ** (failures - 1), BACKOFF_MS_MAX), bucketDelayMs(queue, nowMs));
}

/**
 * Takes one token. The bucket may go into debt, as with upstream's Reserve: of 150 concurrent calls, 100 wait 0 ms and the others 100, 200
 * … 5,000 ms.
 */
function bucketDelayMs(queue: QueueData, nowMs: number): number {
  queue.bucketMs = Math.max(queue.bucketMs, nowMs - BUCKET_BURST * BUCKET_INTERVAL_MS) + BUCKET_INTERVAL_MS;
  return Math.max(0, queue.bucketMs - nowMs);
}
