-- readSlices: whole slices, all of the same instant.
-- KEYS  slices
-- ARGV  none
-- Returns { "otherEpoch", current epoch or "" } · { "ok", slice (key, entry, …), … }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out = { "ok" }
for slot = slicesFrom, #KEYS do out[#out + 1] = call("HGETALL", KEYS[slot]) end
return out
