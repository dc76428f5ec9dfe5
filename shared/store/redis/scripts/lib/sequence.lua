-- Sequences and watermarks of a lane (A2, A3, A11–A13). `base` is the lane's first KEY.
local function openLane(base)
  local fields = call("HMGET", KEYS[base], "fence", "last", "W", "gen", "frozen", "holeSince", "part")
  local state = {
    base = base, tombs = {}, fence = fields[1], last = tonumber(fields[2] or 0), W = fields[3] or "0",
    gen = tonumber(fields[4] or 0), frozen = fields[5] == "1", holeSince = tonumber(fields[6] or ""), part = fields[7],
  }
  lanes[base] = state
  return state
end

-- A2. Returns nil if the message's fence is current, else "fence" (older: drop the message) or "notOpen" (retry). A Store set back to before
-- its lanes grew lacks the message's lane, but has the resource's fence.
local function otherFence(state, fence)
  local current = state.fence or call("HGET", metaKey, "fence")
  if current and less(fence, current) then return "fence" end
  if not state.fence or less(current, fence) then return "notOpen" end
  return nil
end

-- A16. Returns nil if the epoch has the caller's projection, else "otherProjection": the message waits for another build.
local function otherProjection(projection)
  return call("HGET", epochKey, "projection") ~= projection and "otherProjection" or nil
end

-- A3. Out-of-order sequences exist only while holeSince is set.
local function isDuplicate(state, sequence)
  if sequence <= state.last then return true end
  return state.holeSince ~= nil and #call("ZRANGEBYSCORE", KEYS[state.base + H], text(sequence), text(sequence)) > 0
end

-- A3: doorbells of affected keys that are still dirty; nothing changes.
local function stillDirty()
  readEffects()
  for index = 1, effectsCount do
    local state = effects[index].state
    if state.at then ringLater(state) end
  end
end

-- A manifest that arrives before earlier messages of its lane: records the hole in the sequence. On a FIFO queue the manifest blocks the
-- later messages of its lane, so none of these would record it (T40).
local function early(state)
  evenIfFull()
  if not state.holeSince then call("HSET", KEYS[state.base], "holeSince", text(now)) end
  return { "early" }
end

-- A11–A13: commits `sequence`; `watermark` is empty when the message carries none.
local function commit(state, sequence, watermark)
  if sequence ~= state.last + 1 then
    call("ZADD", KEYS[state.base + H], text(sequence), text(sequence) .. ":" .. watermark)
    if not state.holeSince then
      state.holeSince = now
      call("HSET", KEYS[state.base], "holeSince", text(now))
    end
    return
  end
  local before = state.W
  local function step(to, mark)
    state.last = to
    if mark ~= "" and not state.frozen and less(state.W, mark) then state.W = mark end
  end
  step(sequence, watermark)
  if state.holeSince then
    local waiting = call("ZRANGE", KEYS[state.base + H], 0, -1)
    local filled = 0
    while waiting[filled + 1] do
      local nextSequence, mark = string.match(waiting[filled + 1], "^(%d+):(%d*)$")
      if tonumber(nextSequence) ~= state.last + 1 then break end
      step(tonumber(nextSequence), mark)
      filled = filled + 1
    end
    if filled > 0 then call("ZREMRANGEBYRANK", KEYS[state.base + H], 0, filled - 1) end
    state.holeSince = filled < #waiting and now or nil
  end
  call("HSET", KEYS[state.base], "last", text(state.last), "W", state.W, "holeSince", state.holeSince and text(state.holeSince) or "", "ts", text(now))
  if state.W ~= before then dropTombstones(KEYS[state.base + T], state.W) end
end
