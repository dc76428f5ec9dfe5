-- dueIn: when the next sweep may find something.
-- KEYS  none
-- ARGV  READERS: controllers and the resources that each reads
-- Returns ms until the earliest queued key is due: 0 while one is overdue or a run is in progress, -1 without both or with another epoch
if otherEpoch() then return -1 end
local earliest
for at = readersAt, readersEnd, READERS_SIZE do
  local base = tonumber(ARGV[at + READERS_QUEUE_BASE])
  if call("HLEN", KEYS[base + P]) > 0 then return 0 end
  local first = call("ZRANGE", KEYS[base], 0, 0, "WITHSCORES")[2]
  if first then earliest = math.min(tonumber(first), earliest or math.huge) end
end
if not earliest then return -1 end
return math.max(0, math.ceil(earliest - now))
