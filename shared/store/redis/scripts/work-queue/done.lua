-- done: ends a run.
-- KEYS  queue: of the controller · limiter: of its retries
-- ARGV  key · token · outcome: ok|retry|requeueAfter|drop · delayMs: of requeueAfter; of retry: the longest, or empty
-- Returns { failures } · { failures, doorbell } · { "ended" } · { "ended", doorbell } if no run holds the key
--         {} if another run holds it, or with another epoch
if otherEpoch() then return {} end
return endRun(queueBase, key, token, outcome, delayMs, limiterKey)
