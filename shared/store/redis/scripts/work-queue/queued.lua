-- queued: the keys of a controller that are dirty or running, for operators and tests.
-- KEYS  queue: of the controller
-- ARGV  none
-- Returns { "otherEpoch", current epoch or "" } · { "ok", q (key, readyAt, …), p (key, value, …), f (key, failures, …) }
if otherEpoch() then return { "otherEpoch", current or "" } end
local ready = call("ZRANGE", KEYS[queueBase], 0, -1, "WITHSCORES")
return { "ok", ready, call("HGETALL", KEYS[queueBase + P]), call("HGETALL", KEYS[queueBase + F]) }
