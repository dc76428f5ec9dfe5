-- forgeries: the entries, oldest first.
-- KEYS  1 ep · 2 forged
-- ARGV  1 now ms · 2 "" · 3 how many are kept
-- Returns { entry, … }
return call("LRANGE", KEYS[2], -tonumber(ARGV[3]), -1)
