-- scan: one step through all keys of the node that holds this cluster's slot, including keys of other applications.
-- KEYS  none
-- ARGV  cursor: "0" from the start · pattern · batch: how many keys to look at
-- Returns { now, next cursor ("0": that was all), matching keys } · { "otherEpoch" }
if otherEpoch() then return { "otherEpoch" } end
local found = call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)
return { now, found[1], found[2] }
