-- markSuspect: the gate shuts until a generation has been listed.
-- KEYS  1 ep · 2 m of the resource
-- ARGV  1 now ms · 2 epoch · 3 reason
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
-- A resource that was never listed stays INIT: its gate is shut, and it will be listed anyway.
if (call("HGET", KEYS[2], "state") or "INIT") ~= "INIT" then call("HSET", KEYS[2], "state", "SUSPECT", "suspect", ARGV[3]) end
return { "ok" }
