-- forget: takes away keys of epochs that are not current.
-- KEYS  1 ep · 2… what goes
-- ARGV  1 now ms (unused) · 2 epoch: the current one, of which nothing is named
-- Returns how many there were; 0 with another epoch
if otherEpoch() then return 0 end
local removed = 0
for i = 2, #KEYS, MAX_ARGS do
  removed = removed + call("UNLINK", unpack(KEYS, i, math.min(i + MAX_ARGS - 1, #KEYS)))
end
return removed
