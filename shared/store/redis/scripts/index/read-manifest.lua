-- readManifest: the stashed parts of the manifest of a list.
-- KEYS  lane
-- ARGV  generation: number of the list · fence
-- Returns { "<sequence>", rows, "<sequence>", rows, … } in no order; {} without an epoch, with another one or another fence
if otherEpoch() or call("HGET", KEYS[laneBase], "fence") ~= fence then return {} end
local out, parts = {}, call("HGETALL", KEYS[laneBase + MP])
for i = 1, #parts, 2 do
  local ofGeneration, sequence = string.match(parts[i], "^(%d+)%.(%d+)$")
  if ofGeneration == generation then
    out[#out + 1] = sequence
    out[#out + 1] = parts[i + 1]
  end
end
return out
