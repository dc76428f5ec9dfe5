-- quarantine: keeps an entry among the last 1000.
-- KEYS  1 ep · 2 quar
-- ARGV  1 now ms · 2 epoch · 3 entry
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
call("RPUSH", KEYS[2], ARGV[3])
call("LTRIM", KEYS[2], -1000, -1)
return { "ok" }
