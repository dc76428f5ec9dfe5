-- renew: renews the lease of a key's run for a full period.
-- KEYS  queue: of the controller · stop
-- ARGV  key · token · heedsStop: 0 for a caller that ignores stops (GD1, GD7)
-- Returns the new lease end ms; 0 if another run holds the key or with another epoch; -1 while stopped
if otherEpoch() then return 0 end
evenIfFull()
local value = call("HGET", KEYS[queueBase + P], key)
local held, start = string.match(value or "", "^([^\31]*)\31%d+(\31.+)$")
if held ~= token then return 0 end
if heedsStop and stopOf(stopKey, key) then return -1 end
call("HSET", KEYS[queueBase + P], key, token .. US .. text(now + LEASE_MS) .. start)
return now + LEASE_MS
