-- openEpoch: creates `epoch`, or replaces the epoch `over` by it.
-- KEYS  none
-- ARGV  over: "" replaces none · clusterUid · projection · digestPrefix · hashLayout · fence
-- Returns { "opened" } · { "exists", field, value, … }
if current and (current == epoch or current ~= over) then
  local record = call("HGETALL", epochKey)
  table.insert(record, 1, "exists")
  return record
end
call("DEL", epochKey)
call("HSET", epochKey, "epoch", epoch, "clusterUid", clusterUid, "projection", projection, "digestPrefix", digestPrefix, "hashLayout", hashLayout, "fence", fence)
return { "opened" }
