-- add: queues a key (WQ1, WQ3).
-- KEYS  queue: of the controller
-- ARGV  key · delayMs
-- Returns doorbells: { base, key, u, delay ms } or {}; {} with another epoch
if otherEpoch() then return {} end
add(keyState(queueBase, key), now + math.max(0, delayMs))
return bellReplies()
