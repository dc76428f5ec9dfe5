-- scan: one step through all keys of the node that holds this cluster's slot, other people's included.
-- KEYS  1 ep
-- ARGV  1 now ms · 2 epoch · 3 cursor ("0": from the start) · 4 pattern · 5 how many keys to look at
-- Returns { now, next cursor ("0": that was all), keys that match } · { "otherEpoch" }
if otherEpoch() then return { "otherEpoch" } end
local found = call("SCAN", ARGV[3], "MATCH", ARGV[4], "COUNT", ARGV[5])
return { now, found[1], found[2] }
