-- openGeneration: starts a LIST-equivalent; the floor is the greatest W.
-- KEYS  1 ep · 2 m · 3 need of the resource · 4… l of its lanes
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 resource · 5 number of lanes as the caller believes
-- Returns { "noEpoch" } · { "fenced", stored fence } · { "lanes", resource, number } · { "open", generation, floor }
if otherEpoch() then return { "noEpoch" } end
evenIfFull()
local fields = call("HMGET", KEYS[2], "fence", "lanes", "state")
if fields[1] ~= ARGV[3] then return { "fenced", fields[1] or "0" } end
if fields[2] ~= ARGV[5] then return { "lanes", ARGV[4], tonumber(fields[2]) } end
if (fields[3] or "INIT") == "INIT" then call("HSET", KEYS[2], "state", "SYNCING") end
call("DEL", KEYS[3])
local floor = "0"
for i = 4, #KEYS do
  local W = call("HGET", KEYS[i], "W") or "0"
  if less(floor, W) then floor = W end
end
return { "open", call("HINCRBY", KEYS[2], "gen", 1), floor }
