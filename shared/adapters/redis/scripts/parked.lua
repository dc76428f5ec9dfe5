-- parked: the keys of a controller that were given up and have not been added since (WQ6), for people.
-- KEYS  1 ep · 2… q p f u b z of the controller
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", key, "end of its last run 0x1F failures", … }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out, ends = { "ok" }, call("HGETALL", KEYS[2 + Z])
for i = 1, #ends, 2 do
  local key, ended = ends[i], ends[i + 1]
  local isParked = string.find(ended, US, 1, true) and not call("ZSCORE", KEYS[2], key) and call("HEXISTS", KEYS[2 + P], key) == 0
  if isParked then
    out[#out + 1] = key
    out[#out + 1] = ended
  end
end
return out
