-- noteForgery: adds an entry and keeps the last ones. Forgeries are kept across epochs, because they are for the operator and belong to no cache.
-- KEYS  forgeries
-- ARGV  entry · kept: how many are kept
-- Returns { "ok" }
evenIfFull()
call("RPUSH", forgeriesKey, entry)
call("LTRIM", forgeriesKey, -kept, -1)
return { "ok" }
