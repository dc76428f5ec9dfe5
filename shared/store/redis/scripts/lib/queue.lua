-- The work queue of a controller (informer §12.2): six consecutive KEYS from `base` (P, F, U, B, Z after it):
--   q zset key -> readyAt · p hash key -> token, leaseUntil, startedAt · f hash key -> failures
--   u hash key -> uid, uid of the controller owner, and 0x1F if the primary is outside · b hash key -> rungAt, due, rings
--   z hash key -> end of the last run, and if it was given up (WQ6) 0x1F failures
local BELL_YOUNG_MS = 5000

-- The queue state of a key: at = readyAt or nil, u = "uid 0x1F ownerUid" or false, b = {at, due} or false, z = end of the last
-- run or now while one is in progress, held = whether one is. Read once in a call; written when the call ends (flushQueue).
local keyStates = {} -- base -> key -> state
local bells = {} -- states whose doorbell is to be rung, in order, each once
local queueWrites = {} -- Redis key -> { command, arguments }

local function keyState(base, key)
  local states = keyStates[base]
  if not states then
    states = {}
    keyStates[base] = states
  end
  local state = states[key]
  if not state then
    local at = call("ZSCORE", KEYS[base], key)
    state = { base = base, key = key, at = at and tonumber(at) }
    states[key] = state
  end
  return state
end

local function isLive(run)
  local untilMs = run and tonumber(string.match(run, "^[^\31]*\31(%d+)"))
  return untilMs and untilMs > now or false
end

local function parseZ(run, ended)
  if isLive(run) then return now end
  return tonumber(head(ended or "0"))
end

local function parseBell(value)
  if not value then return false end
  local at, due = string.match(value, "^(%d+)\31(%d+)")
  return { at = tonumber(at), due = tonumber(due) }
end

-- Reads in advance the data that `add` and effects need of many keys, with one command per kind instead of one per key.
local function prefetch(base, keys)
  local states = keyStates[base]
  if not states then
    states = {}
    keyStates[base] = states
  end
  local scores = call("ZMSCORE", KEYS[base], unpack(keys))
  local idle, idleKeys = {}, {}
  for i = 1, #keys do
    local at = scores[i] and tonumber(scores[i]) or nil
    local state = { base = base, key = keys[i], at = at }
    states[keys[i]] = state
    if not at or at > now then
      idle[#idle + 1] = state
      idleKeys[#idleKeys + 1] = keys[i]
    end
  end
  if #idle == 0 then return end
  local primaries = call("HMGET", KEYS[base + U], unpack(idleKeys))
  local runs = call("HMGET", KEYS[base + P], unpack(idleKeys))
  local ends = call("HMGET", KEYS[base + Z], unpack(idleKeys))
  local rung = call("HMGET", KEYS[base + B], unpack(idleKeys))
  for i = 1, #idle do
    local state = idle[i]
    state.u = primaries[i]
    state.z = parseZ(runs[i], ends[i])
    state.held = isLive(runs[i])
    state.b = parseBell(rung[i])
  end
end

-- The value of `u` for the primary: "uid 0x1F ownerUid", or false.
local function primaryOf(state)
  if state.u == nil then state.u = call("HGET", KEYS[state.base + U], state.key) end
  return state.u
end

-- The keys of primaries that a list or resync enqueues: not of those outside, of which effects enqueue what is left to do. Sorted.
local function primariesInside(base)
  local all, keys = call("HGETALL", KEYS[base + U]), {}
  for i = 1, #all, 2 do
    if not string.find(all[i + 1], "\31.*\31") then keys[#keys + 1] = all[i] end
  end
  table.sort(keys)
  return keys
end

-- Deleted primaries: a field of `n` with 0x1F key 0x1F rv for each of the latest PREDECESSORS_MAX. Key "*": the greatest rv of those
-- that were dropped.
local PREDECESSORS, PREDECESSORS_MAX = "-", 64

-- The greatest rv at which a former primary of `key` may no longer have existed, or "".
local function predecessorGone(stored, key)
  local gone = ""
  for other, rv in string.gmatch(stored or "", "\31([^\31]+)\31(%d+)") do
    if (other == key or other == "*") and less(gone, rv) then gone = rv end
  end
  return gone
end

local function uidIs(u, uid)
  return u and string.sub(u, 1, #uid + 1) == uid .. US
end

local function queueWrite(key, command, first, second)
  local write = queueWrites[key]
  if not write then
    write = { command, {} }
    queueWrites[key] = write
  end
  local arguments = write[2]
  arguments[#arguments + 1] = first
  arguments[#arguments + 1] = second
end

local function flushQueue()
  for key, write in pairs(queueWrites) do bulk(write[1], key, write[2]) end
  queueWrites = {}
end

local function setBell(state, due, rings)
  state.b = { at = now, due = due }
  queueWrite(KEYS[state.base + B], "HSET", state.key, text(now) .. US .. text(due) .. US .. rings)
end

local function ringLater(state)
  if not state.rung then
    state.rung = true
    bells[#bells + 1] = state
  end
end

-- WQ1, WQ3: the earliest time wins. Rings when newly dirty or moved earlier, unless an outstanding doorbell younger than 5 s
-- covers that time, or a run holds the key: a doorbell would find it busy, and `done` rings.
local function add(state, at)
  if state.at and state.at <= at then return end
  state.at = at
  queueWrite(KEYS[state.base], "ZADD", text(at), state.key)
  if state.held == nil then state.held = isLive(call("HGET", KEYS[state.base + P], state.key)) end
  if state.held then return end
  if state.b == nil then state.b = parseBell(call("HGET", KEYS[state.base + B], state.key)) end
  local b = state.b
  if b and now - b.at < BELL_YOUNG_MS and b.due <= at then return end
  setBell(state, at, "0")
  ringLater(state)
end

-- Returns token and leaseUntil of the run that holds `key`, or nil, and the number of runs before it that never ended. The lease is valid
-- while now < leaseUntil.
local function holder(base, key)
  local value = call("HGET", KEYS[base + P], key)
  if not value then return nil end
  local token, untilMs, unended = string.match(value, "^([^\31]*)\31(%d+)\31%d+\31?(%d*)")
  return token, tonumber(untilMs), tonumber(unended) or 0
end

-- Ends a call that changed the queue: writes the changes, and returns one doorbell as { base, key, u, delayMs } …
local function bellReply(state)
  flushQueue()
  return { state.base, state.key, primaryOf(state) or "", math.max(0, state.at - now) }
end

-- … or all doorbells to ring, as { base, key, u, delayMs, base, … }.
local function bellReplies()
  flushQueue()
  local out = {}
  for i = 1, #bells do
    local state = bells[i]
    local n = 4 * (i - 1)
    out[n + 1] = state.base
    out[n + 2] = state.key
    out[n + 3] = primaryOf(state) or ""
    out[n + 4] = math.max(0, state.at - now)
  end
  return out
end
