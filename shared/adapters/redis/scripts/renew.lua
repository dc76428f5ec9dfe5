-- renew: a whole lease more for the holder of a key.
-- KEYS  1 ep · 2… q p f u b z of the controller
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token
-- Returns the new lease end ms; 0 when the key was taken over or the epoch is another one

if otherEpoch() then return 0 end
local value = call("HGET", KEYS[2 + P], ARGV[3])
local token, start = string.match(value or "", "^([^\31]*)\31%d+(\31.+)$")
if token ~= ARGV[4] then return 0 end
call("HSET", KEYS[2 + P], ARGV[3], token .. US .. text(now + LEASE_MS) .. start)
return now + LEASE_MS
