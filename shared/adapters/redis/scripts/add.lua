-- add: queues a key (WQ1, WQ3).
-- KEYS  1 ep · 2… q p f u b z of the controller
-- ARGV  1 now ms · 2 epoch · 3 key · 4 delay ms
-- Returns bells: { base, key, u, delay ms } or {}; {} with another epoch
if otherEpoch() then return {} end
add(keyState(2, ARGV[3]), now + math.max(0, tonumber(ARGV[4])))
return bellReplies()
