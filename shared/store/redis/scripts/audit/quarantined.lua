-- quarantined: the entries, oldest first.
-- KEYS  quarantine
-- ARGV  none
-- Returns { "otherEpoch", current epoch or "" } · { "ok", entry, … }
if otherEpoch() then return { "otherEpoch", current or "" } end
return { "ok", unpack(call("LRANGE", quarantineKey, 0, -1)) }
