-- done: ends a run. lib/ending.lua computes the back-off and the token bucket.
-- KEYS  queue: of the controller · limiter: of its retries
-- ARGV  key · token · outcome: ok|retry|requeueAfter|drop · delayMs: for requeueAfter the delay, for retry the longest delay or ""
-- Returns { failures } · { failures, doorbell } · { "ended" } · { "ended", doorbell } if no run holds the key
--         {} if another run holds it, or with another epoch
if otherEpoch() then return {} end
return endRun(queueBase, key, token, outcome, delayMs, limiterKey)
