-- done: ends a run.
-- KEYS  1 ep · 2… q p f u b z of the controller · 8 rl
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 ok|retry|requeueAfter|drop · 6 delay ms of requeueAfter; of retry: at the latest, or empty
-- Returns { failures } · { failures, bell } · { "ended" } · { "ended", bell } when nobody has the key · {} when stolen or of another epoch
if otherEpoch() then return {} end
return endRun(2, ARGV[3], ARGV[4], ARGV[5], ARGV[6], KEYS[8])
