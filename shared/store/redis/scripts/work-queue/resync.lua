-- resync: enqueues every primary of a controller, spread over `spreadMs`, except those outside and keys in back-off (WQ7).
-- KEYS  queue: of the controller
-- ARGV  spreadMs
-- Returns the first 500 doorbells: { base, key, u, delay ms, … }; {} with another epoch
local BELLS_MAX = 500
if otherEpoch() then return {} end
local keys = primariesInside(queueBase)
local backingOff = call("HGETALL", KEYS[queueBase + F])
local failed = {}
for i = 1, #backingOff, 2 do failed[backingOff[i]] = true end
for i, key in ipairs(keys) do
  local state = keyState(queueBase, key)
  if not (failed[key] and state.at) then add(state, now + math.floor((i - 1) * spreadMs / #keys)) end
end
for i = #bells, BELLS_MAX + 1, -1 do bells[i] = nil end
return bellReplies()
