-- tallies: how many items of each lane had which fate. The epoch is not compared.
-- KEYS  tally
-- ARGV  none
-- Returns { "<resource>:<lane>:<fate or received>", count, … }
return call("HGETALL", tallyKey)
