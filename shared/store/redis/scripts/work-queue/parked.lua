-- parked: the parked keys of a controller (WQ6), for operators.
-- KEYS  queue: of the controller
-- ARGV  none
-- Returns { "otherEpoch", current epoch or "" } · { "ok", key, "end of its last run 0x1F failures", … }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out, ends = { "ok" }, call("HGETALL", KEYS[queueBase + Z])
for i = 1, #ends, 2 do
  local key, ended = ends[i], ends[i + 1]
  local isParked = string.find(ended, US, 1, true) and not call("ZSCORE", KEYS[queueBase], key)
  if isParked and call("HEXISTS", KEYS[queueBase + P], key) == 0 then
    out[#out + 1] = key
    out[#out + 1] = ended
  end
end
return out
