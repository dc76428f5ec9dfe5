-- stashManifest: stores a part of a manifest that is not its last, and commits its sequence (§11.5 step 1).
-- KEYS  lane · meta: of the resource
-- ARGV  fence · generation: number of the list · sequence · part: rows, returned unchanged later
-- Returns { "noEpoch" } { "epoch" } { "notOpen" } { "fence" } { "duplicate", {} } { "early" } { "applied", {}, "" }
local refused = otherEpoch()
if refused then return { refused } end
local state = openLane(laneBase)
refused = otherFence(state, fence)
if refused then return { refused } end
if isDuplicate(state, sequence) then return { "duplicate", {} } end
if sequence ~= state.last + 1 then return early(state) end
evenIfFull() -- so that a list can end and free memory while the Store is full
local stash = KEYS[laneBase + MP]
for _, field in ipairs(call("HKEYS", stash)) do -- parts of an abandoned list
  if string.match(field, "^%d+") ~= generation then call("HDEL", stash, field) end
end
call("HSET", stash, generation .. "." .. text(sequence), part)
commit(state, sequence, "")
return { "applied", {}, "" }
