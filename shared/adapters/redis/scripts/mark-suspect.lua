-- markSuspect: the gate shuts until a generation that is opened after this has been listed.
-- KEYS  1 ep · 2 m of the resource
-- ARGV  1 now ms · 2 epoch · 3 reason
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
-- A resource that was never listed stays INIT: its gate is shut, and it will be listed anyway.
local fields = call("HMGET", KEYS[2], "state", "gen")
if (fields[1] or "INIT") ~= "INIT" then
  call("HSET", KEYS[2], "state", "SUSPECT", "suspect", ARGV[3], "suspectGen", fields[2] or "0")
end
return { "ok" }
