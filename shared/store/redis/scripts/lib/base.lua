-- Prepended to every script. ../layouts.ts declares the names of KEYS and ARGV in front of this and of the script: here
-- `epochKey` (ep), `clock` (in place of the server's, ms; empty: the server's) and `epoch` (the caller's). Values are joined with 0x1F. resourceVersions and fences are compared as strings
-- (length, then bytes), never as numbers: Lua's are doubles. No script decodes an object.
local call, KEYS, ARGV = redis.call, KEYS, ARGV
local US = "\31"
local MAX_ARGS = 2000 -- per command, well below Lua's limit for unpack

local serverNow
if clock == "" then
  local time = call("TIME")
  serverNow = time[1] * 1000 + math.floor(time[2] / 1000)
else
  serverNow = tonumber(clock)
end

-- The Store's time (informer §12.5): `now` advances from the last checkpoint with the server's clock, by CLOCK_TRUST_MS at most (ST2).
-- `uncheckedNow` is without that limit. Field `clock` of ep: the checkpoint that wrote it, the server's time then, how far the server's
-- clock is ahead of the Store's, the leader's time. It is invalid once an older build has checkpointed.
local header = call("HMGET", epochKey, "epoch", "checkpoint", "clock")
local checkpointed, checkedAt, clockAhead, leaderAt = string.match(header[3] or "", "^(%d+\31%d+)\31(%d+)\31(%-?%d+)\31(%d+)$")
if not checkpointed or checkpointed ~= header[2] then checkedAt, clockAhead, leaderAt = nil, 0, nil end
checkedAt, clockAhead, leaderAt = tonumber(checkedAt), tonumber(clockAhead), tonumber(leaderAt)
local uncheckedNow = serverNow - clockAhead
local sinceChecked = checkedAt and serverNow - checkedAt or 0
local isClockSure = math.abs(sinceChecked) <= CLOCK_TRUST_MS
local now = uncheckedNow - sinceChecked + math.max(0, math.min(sinceChecked, CLOCK_TRUST_MS))

-- Whether version or fence `a` is smaller than `b`.
local function less(a, b)
  local la, lb = #a, #b
  if la ~= lb then return la < lb end
  return a < b
end

-- Whether a cached version `cached` is kept when `came` arrives; `listRV`: the version of its list, or "" (IX9). The same as
-- isCurrent in shared/kube/objects/resource-version.ts.
local function isCurrent(cached, came, listRV)
  if cached == came then return true end
  return less(came, cached) and (listRV == "" or less(listRV, cached))
end

-- The serving primary: the replication id, which differs after every restart and every promotion; empty on a replica, or if the
-- server does not report it. Managed services allow INFO although they reject CONFIG.
local function primaryNow()
  local info = redis.pcall("INFO", "replication")
  if type(info) ~= "string" then return "" end
  if string.find(info, "role:slave", 1, true) then return "a replica" end
  return string.match(info, "master_replid:(%x+)") or ""
end
local OTHER_PRIMARY = "another primary serves the cache: recent writes of the former one may be missing"

-- Marks a resource SUSPECT: closes the gate until a list that is announced after this is applied. `meta`: the resource's metadata hash
-- (key m). A resource that was never listed stays INIT: its gate is closed, and it will be listed anyway.
local function suspect(meta, reason)
  local fields = call("HMGET", meta, "state", "gen")
  if (fields[1] or "INIT") ~= "INIT" then
    call("HSET", meta, "state", "SUSPECT", "suspect", reason, "suspectGen", fields[2] or "0")
    call("HINCRBY", meta, "suspects", 1) -- invalidates earlier decision marks
    call("HINCRBY", epochKey, "marks", 1)
  end
end

local function text(number)
  return string.format("%.0f", number)
end

-- The part of `value` before the first 0x1F.
local function head(value)
  local at = string.find(value, US, 1, true)
  return at and string.sub(value, 1, at - 1) or value
end

-- A1. Returns nil if the caller's epoch is the current one, else "noEpoch" or "epoch". The script must then access no keys of an epoch.
local current = header[1]
local function otherEpoch()
  if not current then return "noEpoch" end
  if current ~= epoch then return "epoch" end
  return nil
end

-- FU1: lets the script's further writes succeed while Redis is out of memory: Redis checks only a script's first write, and this one takes
-- none. Use it for writes that free memory, or that are small and do not accumulate.
local function evenIfFull()
  call("HDEL", epochKey, "")
end

-- Returns the error of a full store, or nil while there is room. Call it before the first write. If the store is full, this records the
-- time, because small writes may succeed again once this call's own arguments are freed (FU4). The script may continue (FU1).
local FULL = "the store is full: no room for received objects"
local function storeFull()
  if not current then return nil end
  local answer = redis.pcall("HSETNX", epochKey, "epoch", "") -- the field exists, so nothing is written
  if type(answer) ~= "table" or not string.find(answer.err, "OOM command not allowed", 1, true) then return nil end
  evenIfFull()
  call("HSET", epochKey, "full", text(now))
  return answer
end

-- Runs `command` on `key` with any number of arguments.
local function bulk(command, key, arguments)
  for i = 1, #arguments, MAX_ARGS do
    call(command, key, unpack(arguments, i, math.min(i + MAX_ARGS - 1, #arguments)))
  end
end

-- A12: removes tombstones at or below the watermark W.
local function dropTombstones(key, W)
  if call("HLEN", key) == 0 then return end
  local tombs, old = call("HGETALL", key), {}
  for i = 1, #tombs, 2 do
    if not less(W, head(tombs[i + 1])) then old[#old + 1] = tombs[i] end
  end
  bulk("HDEL", key, old)
end

-- HMGET with any number of fields.
local function hmget(key, fields)
  if #fields <= MAX_ARGS then return call("HMGET", key, unpack(fields)) end
  local all = {}
  for i = 1, #fields, MAX_ARGS do
    local part = call("HMGET", key, unpack(fields, i, math.min(i + MAX_ARGS - 1, #fields)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end
