-- Ends a run (informer §12.2). Computes the back-off of a failed key, and returns the doorbell of a key that is dirty.
local BACKOFF_MIN_MS, BACKOFF_MAX_MS = 5, 1000000
local BUCKET_INTERVAL_MS, BUCKET_BURST = 100, 100 -- a controller's retries: 10 a second, burst 100

-- `outcome`: ok|retry|requeueAfter|drop · `delayMs`: for requeueAfter the delay, for retry the longest delay or nil
-- `limiter`: key of the rate limiter
-- { failures } · { failures, bell } · { "ended" } · { "ended", bell } if no run holds the key · {} if stolen
local function endRun(base, key, token, outcome, delayMs, limiter)
  local state, failures, held = keyState(base, key), 0, holder(base, key)
  local function ending(what)
    if not state.at then return { what } end
    setBell(state, state.at, "0")
    return { what, bellReply(state) }
  end
  if not held then -- WQ9
    state.held = true -- as below
    if outcome == "retry" and not state.at then add(state, now) end
    if outcome == "requeueAfter" then add(state, now + math.max(0, delayMs)) end
    return ending("ended")
  end
  if held ~= token then return {} end
  call("HDEL", KEYS[base + P], key)
  state.held = true -- so that `add` rings no doorbell: `ending` returns it
  if primaryOf(state) then
    local parked = outcome == "drop" and US .. text((call("HGET", KEYS[base + F], key) or 0) + 1) or "" -- WQ6
    call("HSET", KEYS[base + Z], key, text(now) .. parked)
  end
  if outcome == "retry" then
    failures = call("HINCRBY", KEYS[base + F], key, 1)
    local bucket = math.max(tonumber(call("GET", limiter) or 0), now - BUCKET_BURST * BUCKET_INTERVAL_MS) + BUCKET_INTERVAL_MS
    call("SET", limiter, text(bucket))
    local backoff = math.max(math.min(BACKOFF_MIN_MS * 2 ^ (failures - 1), BACKOFF_MAX_MS), bucket - now)
    add(state, now + math.max(0, math.min(backoff, delayMs or math.huge)))
  else
    call("HDEL", KEYS[base + F], key)
    if outcome == "requeueAfter" then add(state, now + math.max(0, delayMs)) end
  end
  return ending(failures)
end
