-- readManifest: the stashed parts of a generation.
-- KEYS  1 ep · 2 mp of the lane · 3 l of the lane
-- ARGV  1 now ms · 2 epoch · 3 generation · 4 fence
-- Returns { "<sequence>", rows, "<sequence>", rows, … } in no order; {} without an epoch, with another one or another fence
if otherEpoch() or call("HGET", KEYS[3], "fence") ~= ARGV[4] then return {} end
local out, parts = {}, call("HGETALL", KEYS[2])
for i = 1, #parts, 2 do
  local generation, sequence = string.match(parts[i], "^(%d+)%.(%d+)$")
  if generation == ARGV[3] then
    out[#out + 1] = sequence
    out[#out + 1] = parts[i + 1]
  end
end
return out
