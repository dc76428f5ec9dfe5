-- readLane: the version rows and tombstones of a lane, and its watermark.
-- KEYS  1 ep · 2 l · 3 v · 4 t of the lane
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", rows (key, row, …), tombstones (key, tombstone, …), W }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", call("HGETALL", KEYS[3]), call("HGETALL", KEYS[4]), call("HGET", KEYS[2], "W") or "0" }
