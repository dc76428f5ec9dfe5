-- quarantined: the entries, oldest first.
-- KEYS  1 ep · 2 quar
-- ARGV  1 now ms · 2 epoch
-- Returns { "otherEpoch", current epoch or "" } · { "ok", entry, … }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", unpack(call("LRANGE", KEYS[2], 0, -1)) }
