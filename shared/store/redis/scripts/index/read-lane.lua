-- readLane: the version rows and tombstones of a lane, and its watermark.
-- KEYS  lane · meta: of the resource
-- ARGV  none
-- Returns { "otherEpoch", current epoch or "" } · { "ok", rows (key, row, …), tombstones (key, tombstone, …), W, number of lanes or "" }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", call("HGETALL", KEYS[laneBase + V]), call("HGETALL", KEYS[laneBase + T]), call("HGET", KEYS[laneBase], "W") or "0", call("HGET", metaKey, "lanes") or "" }
