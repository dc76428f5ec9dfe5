-- tallies: the number of items of each lane by fate. The epoch is not compared.
-- KEYS  tally
-- ARGV  none
-- Returns { "<resource>:<lane>:<fate or received>", count, … }
return call("HGETALL", tallyKey)
