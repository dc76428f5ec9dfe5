-- renew: a whole lease more for the holder of a key.
-- KEYS  1 ep · 2… q p f u b z of the controller · 8 guard
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 1: heed a stop (GD1), 0: ignore it (GD7)
-- Returns the new lease end ms; 0 when the key was taken over or the epoch is another one; -1 when it is stopped

if otherEpoch() then return 0 end
evenIfFull()
local value = call("HGET", KEYS[2 + P], ARGV[3])
local token, start = string.match(value or "", "^([^\31]*)\31%d+(\31.+)$")
if token ~= ARGV[4] then return 0 end
if ARGV[5] == "1" and call("HEXISTS", KEYS[8], "stop") == 1 then return -1 end
call("HSET", KEYS[2 + P], ARGV[3], token .. US .. text(now + LEASE_MS) .. start)
return now + LEASE_MS
