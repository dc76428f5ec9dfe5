-- stashManifest: keeps a part of a manifest that is not its last, and commits its sequence (§11.5 step 1).
-- KEYS  1 ep · 2 l · 3 v · 4 t · 5 h · 6 mp of the lane
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 generation · 5 sequence · 6 rows, as the caller wants them back
-- Returns { "noEpoch" } { "epoch" } { "notOpen" } { "fence" } { "duplicate", {} } { "early" } { "applied", {}, "" }
local refused = otherEpoch()
if refused then return { refused } end
local state = openLane(2)
refused = otherFence(state, ARGV[3])
if refused then return { refused } end
local sequence = tonumber(ARGV[5])
if isDuplicate(state, sequence) then return { "duplicate", {} } end
if sequence ~= state.last + 1 then return early(state) end
evenIfFull() -- else a list would end no hole of a full store, and sweep nothing
local mp = KEYS[2 + MP]
for _, field in ipairs(call("HKEYS", mp)) do -- parts of a generation that was given up
  if string.match(field, "^%d+") ~= ARGV[4] then call("HDEL", mp, field) end
end
call("HSET", mp, ARGV[4] .. "." .. ARGV[5], ARGV[6])
commit(state, sequence, "")
return { "applied", {}, "" }
