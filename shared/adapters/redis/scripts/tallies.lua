-- tallies: what became of the items that came to each lane.
-- KEYS  1 ep · 2 tally
-- ARGV  1 now ms · 2 ""
-- Returns { "<resource>:<lane>:<fate or received>", count, … }
return call("HGETALL", KEYS[2])
