-- readSlices: whole slices, all of the same instant.
-- KEYS  1 ep · 2… slices
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", slice (key, entry, …), … }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out = { "ok" }
for i = 2, #KEYS do out[i] = call("HGETALL", KEYS[i]) end
return out
