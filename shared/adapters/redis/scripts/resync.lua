-- resync: queues every primary of a controller, spread over a time, but none that backs off (WQ7).
-- KEYS  1 ep · 2… q p f u b z of the controller
-- ARGV  1 now ms · 2 epoch · 3 how long to spread them over, ms
-- Returns the first 500 bells: { base, key, u, delay ms, … }; {} with another epoch
local BELLS_MAX = 500
if otherEpoch() then return {} end
local keys = call("HKEYS", KEYS[2 + U])
table.sort(keys)
local backingOff = call("HGETALL", KEYS[2 + F])
local failed = {}
for i = 1, #backingOff, 2 do failed[backingOff[i]] = true end
for i, key in ipairs(keys) do
  local state = keyState(2, key)
  if not (failed[key] and state.at) then add(state, now + math.floor((i - 1) * tonumber(ARGV[3]) / #keys)) end
end
for i = #bells, BELLS_MAX + 1, -1 do bells[i] = nil end
return bellReplies()
