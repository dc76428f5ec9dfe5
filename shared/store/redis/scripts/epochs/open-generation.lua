-- openGeneration: announces a list. generation: its number. floor: the greatest watermark (W); the list must not be older.
-- KEYS  meta · needed: of the resource · lanes: l of each
-- ARGV  fence · resource · laneCount: as the caller assumes
-- Returns { "noEpoch" } · { "fenced", stored fence } · { "lanes", resource, number } · { "open", generation, floor }
if otherEpoch() then return { "noEpoch" } end
evenIfFull()
local fields = call("HMGET", metaKey, "fence", "lanes", "state", "gen", "syncedGen")
if fields[1] ~= fence then return { "fenced", fields[1] or "0" } end
if fields[2] ~= laneCount then return { "lanes", resource, tonumber(fields[2]) } end
if (fields[3] or "INIT") == "INIT" then call("HSET", metaKey, "state", "SYNCING") end
call("DEL", neededKey)
local floor = "0"
for slot = lanesFrom, #KEYS do
  local W = call("HGET", KEYS[slot], "W") or "0"
  if less(floor, W) then floor = W end
end
-- After a loss the Store may have forgotten a list whose manifests still arrive: its number must not be reused.
local generation = math.max(tonumber(fields[4] or 0), tonumber(fields[5] or 0)) + 1
call("HSET", metaKey, "gen", text(generation))
return { "open", generation, floor }
