-- queued: the keys of a controller that are dirty or running, for people and tests.
-- KEYS  1 ep · 2… q p f u b z of the controller
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", q (key, readyAt, …), p (key, value, …), f (key, failures, …) }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", call("ZRANGE", KEYS[2], 0, -1, "WITHSCORES"), call("HGETALL", KEYS[2 + P]), call("HGETALL", KEYS[2 + F]) }
