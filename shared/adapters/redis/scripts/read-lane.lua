-- readLane: the version rows and tombstones of a lane.
-- KEYS  1 ep · 2 v of the lane · 3 t of the lane
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", rows (key, row, …), tombstones (key, tombstone, …) }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", call("HGETALL", KEYS[2]), call("HGETALL", KEYS[3]) }
