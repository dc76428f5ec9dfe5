-- openEpoch: creates `epoch`, or replaces the epoch `over` by it (LN1).
-- KEYS  opened: when epochs were opened
-- ARGV  over: "" replaces none · overLineage: "" or "term 0x1F count 0x1F fence 0x1F number" that `over` must have · clusterUid · projection
--       digestPrefix · hashLayout · release: of the cluster, or "" · fence · term · termCount: of the leader that opens it, or ""
--       laneCount: lanes with which a resource begins, or "" for those of the build
-- Returns { "opened" } · { "exists", field, value, … }
local OPENED_MAX = 8

local function isOver()
  if current ~= over then return false end
  if overLineage == "" then return true end
  local of = lineageNow()
  return table.concat({ of.term or "", of.count, of.fence, of.number }, US) == overLineage
end
if current and (current == epoch or not isOver()) then
  local record = call("HGETALL", epochKey)
  table.insert(record, 1, "exists")
  return record
end
call("DEL", epochKey)
call("HSET", epochKey, "epoch", epoch, "clusterUid", clusterUid, "projection", projection, "digestPrefix", digestPrefix, "hashLayout", hashLayout, "fence", fence)
if release ~= "" then call("HSET", epochKey, "release", release) end
if laneCount ~= "" then call("HSET", epochKey, "lanes", laneCount) end
if term ~= "" then call("HSET", epochKey, "term", term, "termCount", termCount, "termFence", fence, "proven", "1") end
local opened = { text(now) }
for at in string.gmatch(call("GET", openedKey) or "", "%d+") do
  if #opened < OPENED_MAX then opened[#opened + 1] = at end
end
call("SET", openedKey, table.concat(opened, ","))
return { "opened" }
