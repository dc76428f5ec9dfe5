-- sweep: returns doorbells of keys overdue by 5 s that no run holds, and of keys whose lease has expired (WQ5), for controllers with an
-- open gate.
-- KEYS  none
-- ARGV  GATE (lib/gate.lua): all resources · READERS: controllers and the resources that each reads
-- Returns { "ok", doorbells } (none with another epoch) · { "lanes", resource, number }
local GRACE_MS, RING_INTERVAL_MAX_MS, BELLS_MAX = 5000, 300000, 500
local CHUNK, SCANNED_MAX = 500, 20000 -- limits the time of one call

if otherEpoch() then return { "ok", {} } end
evenIfFull()
local refused = otherLanes()
if refused then return refused end

local function ringUnlessYoung(base, keys)
  if #keys == 0 then return end
  local outstanding = hmget(KEYS[base + B], keys)
  for i, key in ipairs(keys) do
    if #bells >= BELLS_MAX then return end
    local rungAt, rings = string.match(outstanding[i] or "", "^(%d+)\31%d+\31(%d+)$")
    if not rungAt or now - tonumber(rungAt) >= math.min(BELL_YOUNG_MS * 2 ^ tonumber(rings), RING_INTERVAL_MAX_MS) then
      local state = keyState(base, key)
      setBell(state, now, text(tonumber(rings or 0) + 1))
      state.at = now -- a key whose run was abandoned is due
      ringLater(state)
    end
  end
end

local someStopped = stopSlot > 0 and call("HLEN", KEYS[stopSlot]) > 0
local function isStopped(key) return someStopped and stopOf(KEYS[stopSlot], key) ~= nil end

for at = readersAt, readersEnd, READERS_SIZE do
  local base = tonumber(ARGV[at + READERS_QUEUE_BASE])
  if not closed(ARGV[at + READERS_RESOURCES]) then
    local abandoned, held = {}, {}
    local runs = call("HGETALL", KEYS[base + P])
    for j = 1, #runs, 2 do
      held[runs[j]] = true
      local untilMs = tonumber(string.match(runs[j + 1], "^[^\31]*\31(%d+)"))
      if untilMs <= now and not isStopped(runs[j]) then abandoned[#abandoned + 1] = runs[j] end
    end
    local offset = 0
    for _ = 0, SCANNED_MAX, CHUNK do
      local overdue = call("ZRANGEBYSCORE", KEYS[base], "-inf", "(" .. text(now - GRACE_MS), "LIMIT", offset, CHUNK)
      local idle = {}
      for _, key in ipairs(overdue) do
        if isStopped(key) then -- to the end, so that a stopped namespace does not use up a pass
          call("ZADD", KEYS[base], text(now - GRACE_MS), key)
          offset = offset - 1
        elseif not held[key] then
          idle[#idle + 1] = key
        end
      end
      offset = offset + #overdue
      ringUnlessYoung(base, idle)
      if #overdue < CHUNK or #bells >= BELLS_MAX then break end
    end
    table.sort(abandoned)
    ringUnlessYoung(base, abandoned)
  end
end
return { "ok", bellReplies() }
