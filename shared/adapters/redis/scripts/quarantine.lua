-- quarantine: keeps an entry among the last 1000, and counts the items that came to an end with it.
-- KEYS  1 ep · 2 quar · 3 tally
-- ARGV  1 now ms · 2 epoch · 3 entry · 4 place in the tally · 5 fate · 6 items
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
evenIfFull()
call("RPUSH", KEYS[2], ARGV[3])
call("LTRIM", KEYS[2], -1000, -1)
local items = tonumber(ARGV[6])
tally(KEYS[3], ARGV[4], items, { [ARGV[5]] = items })
return { "ok" }
