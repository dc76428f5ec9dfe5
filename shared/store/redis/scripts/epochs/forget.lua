-- forget: removes keys of epochs that are not current.
-- KEYS  stale
-- ARGV  none
-- Returns the number of removed keys; 0 with another epoch
if otherEpoch() then return 0 end
local removed = 0
for i = staleFrom, #KEYS, MAX_ARGS do
  removed = removed + call("UNLINK", unpack(KEYS, i, math.min(i + MAX_ARGS - 1, #KEYS)))
end
return removed
