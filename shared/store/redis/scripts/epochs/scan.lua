-- scan: one step through all keys of the node that holds this cluster's slot, including keys of other applications.
-- KEYS  none
-- ARGV  cursor: "0" from the start · pattern · batch: number of keys to scan
-- Returns { now, next cursor ("0": the scan is complete), matching keys } · { "otherEpoch" }
if otherEpoch() then return { "otherEpoch" } end
local found = call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)
return { now, found[1], found[2] }
