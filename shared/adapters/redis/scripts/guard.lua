-- guard: what stands of the guard (informer §11.9), outside of epochs.
-- KEYS  1 ep · 2 guard
-- ARGV  1 now ms · 2 ""
-- Returns { stop or "", resumed or "" }
local fields = call("HMGET", KEYS[2], "stop", "resumed")
return { fields[1] or "", fields[2] or "" }
