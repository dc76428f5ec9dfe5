-- openEpoch: creates the epoch, or replaces the one named.
-- KEYS  1 ep
-- ARGV  1 now ms (unused) · 2 new epoch · 3 epoch to replace, or "" · 4 clusterUid · 5 projection · 6 digestPrefix
--       7 hashLayout · 8 fence
-- Returns { "opened" } · { "exists", field, value, … }
if current and (current == ARGV[2] or current ~= ARGV[3]) then
  local record = call("HGETALL", KEYS[1])
  table.insert(record, 1, "exists")
  return record
end
call("DEL", KEYS[1])
call("HSET", KEYS[1], "epoch", ARGV[2], "clusterUid", ARGV[4], "projection", ARGV[5], "digestPrefix", ARGV[6], "hashLayout", ARGV[7], "fence", ARGV[8])
return { "opened" }
