-- noteForgery: adds an entry to the last ones. Forgeries are kept across epochs: they concern the operator, not a cache.
-- KEYS  forgeries
-- ARGV  entry · kept: how many are kept
-- Returns { "ok" }
evenIfFull()
call("RPUSH", forgeriesKey, entry)
call("LTRIM", forgeriesKey, -kept, -1)
return { "ok" }
