-- forgeries: the entries, oldest first. The epoch is not compared.
-- KEYS  forgeries
-- ARGV  kept: how many are kept
-- Returns { entry, … }
return call("LRANGE", forgeriesKey, -kept, -1)
