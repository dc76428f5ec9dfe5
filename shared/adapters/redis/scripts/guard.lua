-- guard: what stands of the guard (informer §11.9), outside of epochs.
-- KEYS  1 ep · 2 guard
-- ARGV  1 now ms · 2 ""
-- Returns { stop or nil, resumed or nil }
return call("HMGET", KEYS[2], "stop", "resumed")
