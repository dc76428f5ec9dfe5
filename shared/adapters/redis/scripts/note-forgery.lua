-- noteForgery: keeps an entry among the last ones. Forgeries stand outside epochs: they concern whoever looks, not a cache.
-- KEYS  1 ep · 2 forged
-- ARGV  1 now ms · 2 "" · 3 entry · 4 how many are kept
-- Returns { "ok" }
evenIfFull()
call("RPUSH", KEYS[2], ARGV[3])
call("LTRIM", KEYS[2], -tonumber(ARGV[4]), -1)
return { "ok" }
