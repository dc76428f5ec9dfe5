-- take: leases a key and reads its snapshot in the same step (informer §12.2, §13).
-- KEYS  queue: of the controller · primarySlice: of the primary · dependents: their slice · orphans: their slice · intents: of the owner
--       primaryRows: version rows (v) of the primary's lane · counts: namespace counts (n) of the primaries
--       Without a known uid, dependents and intents are `-`: not read
-- ARGV  key · token · known: "uid 0x1F ownerUid" as the caller has them, "" for neither
--       GATE (lib/gate.lua): the resources that the controller reads · more: further slices of a user controller, slots
-- Returns { "otherEpoch" } · { "stopped", field and text of the stop } · { "gated", reason } · { "lanes", resource, number } · { "busy" } · { "empty" }
--         { "notYet", doorbell } · { "moved", "uid 0x1F ownerUid" or "" }
--         { "ok", lease end, failures, primary's entry or false, dependents, orphans, intents (field, value, …),
--           primary's row or false, number of directly preceding runs that never ended, fence, SUSPECT marks, time at which a list ended
--           the last of them or "", and least watermark of pods, version by which an earlier primary of the key was gone or "", lineage,
--           release of the cluster or "", the further slices if there are any }
--         { "recover", lease end, failures, primary's entry, expired intents, primary's row or false, number of runs that never ended,
--         lineage }

local refused = otherEpoch()
if refused == "noEpoch" then return { "gated", "there is no epoch" } end
if refused then return { "otherEpoch" } end
call("HDEL", KEYS[queueBase + B], key) -- the caller has received the doorbell
refused = otherLanes()
if refused then return refused end
if stopSlot > 0 then -- GD1
  local field, text = stopOf(KEYS[stopSlot], key)
  if field then return { "stopped", field, text } end
end
local reason = closed(nil)
if reason then return { "gated", reason } end

-- { term, count, fence, SUSPECT marks, fence and number of the checkpoint }
local function lineageReply()
  local of = lineageNow()
  local fence = of.term and of.termFence or "0"
  if not of.term then
    for _, resource in ipairs(gateResources) do
      local opened = call("HGET", KEYS[resource.m], "fence") or "0"
      if less(fence, opened) then fence = opened end
    end
  end
  return { of.term or "", of.count, fence, of.marks, of.fence, of.number }
end

local state = keyState(queueBase, key)
local held, untilMs, unended = holder(queueBase, key)
local isOver = untilMs and untilMs <= now and isClockSure -- ST2
if held and held ~= token and not isOver then return { "busy" } end -- the same token: a repeated take after a lost response
if not held then
  if not state.at then return { "empty" } end
  if state.at > now then
    setBell(state, state.at, "0")
    return { "notYet", bellReply(state) }
  end
end
local u = string.match(primaryOf(state) or "", "^[^\31]*\31?[^\31]*")
if u ~= known then return { "moved", u } end

call("ZREM", KEYS[queueBase], key)
local leaseUntil = now + LEASE_MS
if held ~= token then unended = held and unended + 1 or 0 end
call("HSET", KEYS[queueBase + P], key, token .. US .. text(leaseUntil) .. US .. text(now) .. US .. text(unended))
local failures = tonumber(call("HGET", KEYS[queueBase + F], key) or 0)
local release = call("HGET", epochKey, "release") or ""
if u == "" then return { "ok", leaseUntil, failures, false, {}, {}, {}, false, unended, "", 0, "", "0", "", lineageReply(), release } end
local entry, row = call("HGET", primarySliceKey, key), call("HGET", primaryRowsKey, key)
local intents = call("HGETALL", intentsKey)
if #intents > 0 then -- IT3: all pending ops are of former runs
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
  if #expired > 0 then -- assigns them to this run, so that their former run cannot settle them
    local out = {}
    for _, each in ipairs(expired) do
      local id, op = each[1], each[2]
      lowerOp(intentsKey, id, op)
      op.token = token
      local value = opValue(op)
      call("HSET", intentsKey, id, value)
      out[#out + 1] = id
      out[#out + 1] = value
    end
    setPending(intentsKey, token, #expired, 0)
    return { "recover", leaseUntil, failures, entry, out, row, unended, lineageReply() }
  end
  if earliest then call("ZADD", KEYS[queueBase], text(earliest), key) end -- `done` rings it, or the sweeper if this run crashes
end
local pods = { fence = "", suspects = 0, relisted = "", W = "0" }
for _, resource in ipairs(gateResources) do
  if resource.name == "pods" then pods = resource end
end
local reply = {
  "ok", leaseUntil, failures, entry, call("HGETALL", dependentsKey), call("HGETALL", orphansKey), intents, row, unended,
  pods.fence, pods.suspects, pods.relisted, pods.W, predecessorGone(call("HGET", countsKey, PREDECESSORS), key), lineageReply(), release,
}
if moreCount > 0 then
  local slices = {}
  for at = moreAt, moreEnd, MORE_SIZE do slices[#slices + 1] = call("HGETALL", KEYS[tonumber(ARGV[at + MORE_SLOT])]) end
  reply[17] = slices
end
return reply
