-- quarantine: adds an entry, keeps the last 1000 entries, and counts the items that are quarantined with it.
-- KEYS  quarantine · tally
-- ARGV  entry · place: in the tally · fate · ended: number of items
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
evenIfFull()
call("RPUSH", quarantineKey, entry)
call("LTRIM", quarantineKey, -1000, -1)
tally(tallyKey, place, ended, { [fate] = ended })
return { "ok" }
