-- done: ends a run; a failed one backs off, and what is dirty by now is rung.
-- KEYS  1 ep · 2… q p f u b z of the controller · 8 rl
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 ok|retry|requeueAfter|drop · 6 delay ms of requeueAfter; of retry: at the latest, or empty
-- Returns { failures } · { failures, bell } · {} when stolen or of another epoch
local BACKOFF_MIN_MS, BACKOFF_MAX_MS = 5, 1000000
local BUCKET_INTERVAL_MS, BUCKET_BURST = 100, 100 -- all retries of a controller together: 10 a second, 100 at once

if otherEpoch() then return {} end
local key, outcome = ARGV[3], ARGV[5]
if holder(2, key) ~= ARGV[4] then return {} end
local state, failures = keyState(2, key), 0
call("HDEL", KEYS[2 + P], key)
if primaryOf(state) then
  local parked = outcome == "drop" and US .. text((call("HGET", KEYS[2 + F], key) or 0) + 1) or "" -- WQ6
  call("HSET", KEYS[2 + Z], key, text(now) .. parked)
end
if outcome == "retry" then
  failures = call("HINCRBY", KEYS[2 + F], key, 1)
  local bucket = math.max(tonumber(call("GET", KEYS[8]) or 0), now - BUCKET_BURST * BUCKET_INTERVAL_MS) + BUCKET_INTERVAL_MS
  call("SET", KEYS[8], text(bucket))
  local backoff = math.max(math.min(BACKOFF_MIN_MS * 2 ^ (failures - 1), BACKOFF_MAX_MS), bucket - now)
  add(state, now + math.max(0, math.min(backoff, tonumber(ARGV[6]) or math.huge)))
else
  call("HDEL", KEYS[2 + F], key)
  if outcome == "requeueAfter" then add(state, now + math.max(0, tonumber(ARGV[6]))) end
end
if not state.at then return { failures } end
setBell(state, state.at, "0")
return { failures, bellReply(state) }
