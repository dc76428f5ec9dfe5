-- take: leases a key and reads its snapshot in the same step (informer §12.2, §13).
-- KEYS  1 ep · 2… q p f u b z of the controller · 8 slice of the primary · 9 slice of the dependents · 10 orphans' slice
--       11 i of the owner · 12 v of the primary's lane · others by slot, named in ARGV. 9 and 11 are named `-` when no uid is known, and are then not read
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 "uid 0x1F ownerUid" as the caller knows them, "" for neither
--       6… gate (lib/gate.lua), the resources that the controller reads
-- Returns { "otherEpoch" } · { "stopped", text of the stop } · { "gated", reason } · { "lanes", resource, number } · { "busy" } · { "empty" }
--         { "notYet", bell } · { "moved", "uid 0x1F ownerUid" or "" }
--         { "ok", lease end, failures, primary's entry or false, dependents, orphans, intents (field, value, …),
--           primary's row or false, starts right before that never ended }
--         { "recover", lease end, failures, primary's entry, expired intents, primary's row or false, starts that never ended }

local refused = otherEpoch()
if refused == "noEpoch" then return { "gated", "there is no epoch" } end
if refused then return { "otherEpoch" } end
local key, token, known = ARGV[3], ARGV[4], ARGV[5]
call("HDEL", KEYS[2 + B], key) -- a doorbell was consumed, whatever the answer is
readGate(6)
refused = otherLanes()
if refused then return refused end
if stop then return { "stopped", stop } end
local reason = closed(nil)
if reason then return { "gated", reason } end

local state = keyState(2, key)
local held, untilMs, unended = holder(2, key)
if held and held ~= token and untilMs > now then return { "busy" } end -- the same take again: its answer was lost
if not held then
  if not state.at then return { "empty" } end
  if state.at > now then
    setBell(state, state.at, "0")
    return { "notYet", bellReply(state) }
  end
end
local u = primaryOf(state) or ""
if u ~= known then return { "moved", u } end

call("ZREM", KEYS[2], key)
local leaseUntil = now + LEASE_MS
if held ~= token then unended = held and unended + 1 or 0 end
call("HSET", KEYS[2 + P], key, token .. US .. text(leaseUntil) .. US .. text(now) .. US .. text(unended))
local failures = tonumber(call("HGET", KEYS[2 + F], key) or 0)
if u == "" then return { "ok", leaseUntil, failures, false, {}, {}, {}, false, unended } end
local entry, row = call("HGET", KEYS[8], key), call("HGET", KEYS[12], key)
local intents = call("HGETALL", KEYS[11])
if #intents > 0 then -- IT3: whatever is pending is of a dead token
  local tokens, ops, earliest = {}, {}, nil
  for i = 1, #intents, 2 do
    if string.sub(intents[i], 1, 2) == "t:" then
      local _, deadline = parsePending(intents[i + 1])
      tokens[string.sub(intents[i], 3)] = deadline
    else
      ops[#ops + 1] = { intents[i], parseOp(intents[i + 1]) }
    end
  end
  local expired = {}
  for _, each in ipairs(ops) do
    local op = each[2]
    if op.state == "p" then
      op.deadline = math.max(op.deadline, tokens[op.token] or 0)
      if not earliest or op.deadline < earliest then earliest = op.deadline end
      if op.deadline <= now then expired[#expired + 1] = each end
    end
  end
  if #expired > 0 then -- they become this run's: one that takes over from it voids its lowering again
    local out = {}
    for _, each in ipairs(expired) do
      local id, op = each[1], each[2]
      lowerOp(KEYS[11], id, op)
      op.token = token
      local value = opValue(op)
      call("HSET", KEYS[11], id, value)
      out[#out + 1] = id
      out[#out + 1] = value
    end
    setPending(KEYS[11], token, #expired, 0)
    return { "recover", leaseUntil, failures, entry, out, row, unended }
  end
  if earliest then call("ZADD", KEYS[2], text(earliest), key) end -- `done` rings it, and the sweeper if we die
end
return { "ok", leaseUntil, failures, entry, call("HGETALL", KEYS[9]), call("HGETALL", KEYS[10]), intents, row, unended }
