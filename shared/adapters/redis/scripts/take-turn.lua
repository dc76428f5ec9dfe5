-- takeTurn: whether it is time for what is done seldom; then, and at the first call, the next time is set.
-- KEYS  1 ep · 2 turns
-- ARGV  1 now ms · 2 epoch · 3 job · 4 ms until the next time
-- Returns 1 or 0; 0 with another epoch
if otherEpoch() then return 0 end
evenIfFull()
local due = call("HGET", KEYS[2], ARGV[3])
if due and tonumber(due) > now then return 0 end
call("HSET", KEYS[2], ARGV[3], text(now + tonumber(ARGV[4])))
return due and 1 or 0
