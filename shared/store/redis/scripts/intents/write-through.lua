-- writeThrough: writes responses to own writes and live reads by A1, A4–A7, A10, and settles the run's own ops (informer §13 layer 2).
-- KEYS  queue: of the run's controller · intents: of the owner · meta: of the resource · limiter: of the controller's retries
-- ARGV  key · token · resource · term: as `take` returned it (LN4), "": not compared · termFence · ownStatus · laneCount: as the caller assumes
--       outcome: how the run ends, as in done.lua, or "" · delayMs · lowered: ops
--       planned: ops, state = mayLand 0|1, or h to hold it pending · gone · slices: owner uid or "-<namespace>", slot
--       left: decrement of t:left by an own status · marks: of owners · records: of the owner, text "" removes one
--       CHANGES (lib/index.lua)
-- Returns { "otherEpoch" } · { "lanes", resource, number } · { "slices", owner, … }: nothing is done, repeat the call with these slices
--         { "applied", doorbells, outcomes, or with an end as done.lua } · { "retry", doorbells, outcomes, items done }: no op is changed
if otherEpoch() then return { "otherEpoch" } end
if term ~= "" then
  local fields = call("HMGET", epochKey, "term", "termFence")
  if fields[1] ~= term or fields[2] ~= termFence then return { "otherEpoch" } end
end
local meta = call("HMGET", metaKey, "lanes", "written")
local storedLanes = meta[1]
if storedLanes and storedLanes ~= laneCount then return { "lanes", resource, tonumber(storedLanes) } end
readChanges()

local slices = {}
for at = slicesAt, slicesEnd, SLICES_SIZE do slices[ARGV[at + SLICES_OWNER]] = tonumber(ARGV[at + SLICES_SLOT]) end
local function sliceOf(rowKey, row)
  local owner = ownerIn(row)
  return owner ~= "" and owner or "-" .. string.match(rowKey, "^[^/]*")
end
local unknown = {}
for at = goneAt, goneEnd, GONE_SIZE do
  local rowKey = ARGV[at + GONE_KEY]
  local row = call("HGET", KEYS[tonumber(ARGV[at + GONE_LANE_BASE]) + V], rowKey)
  if row and not slices[sliceOf(rowKey, row)] then unknown[#unknown + 1] = sliceOf(rowKey, row) end
end
if #unknown > 0 then return { "slices", unpack(unknown) } end

if itemsCount > 0 and countsMoved() then return { "retry", {}, "", 0 } end
local own = keyState(queueBase, key)
local isOwnStatus = ownStatus and holder(queueBase, key) == token -- WQ9
local outcomes, moved = applyItems(false, "", key, isOwnStatus and own or nil)
flush()
local written = meta[2] or ""
for i = 1, #outcomes do
  local version = head(ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_VALUE])
  if less(written, version) then written = version end
end
if written ~= (meta[2] or "") then call("HSET", metaKey, "written", written) end
local changed = string.find(outcomes, "[cla]") ~= nil
local count, deadline = pendingOf(intentsKey, token)
local stamped = count > 0
if not moved then
  for at = goneAt, goneEnd, GONE_SIZE do
    local rowKey, rows = ARGV[at + GONE_KEY], KEYS[tonumber(ARGV[at + GONE_LANE_BASE]) + V]
    local row = call("HGET", rows, rowKey)
    if row and string.match(row, "^[^\31]*\31([^\31]*)") == ARGV[at + GONE_UID] and not isGone(row) then
      flagGone(rows, KEYS[slices[sliceOf(rowKey, row)]], rowKey, row)
      changed = true
    end
  end
  local function ownOp(id) -- IT1
    local value = call("HGET", intentsKey, id)
    local op = value and parseOp(value)
    return op and op.token == token and op or nil
  end
  for at = loweredAt, loweredEnd do
    local id = ARGV[at + LOWERED_OP]
    local op = ownOp(id)
    if op then
      call("HDEL", intentsKey, id)
      if op.state == "p" then count = count - 1 end
    end
  end
  for at = plannedAt, plannedEnd, PLANNED_SIZE do
    local id, planned = ARGV[at + PLANNED_OP], ARGV[at + PLANNED_STATE]
    local op = ownOp(id)
    if op and planned == "h" then
      if op.state == "p" then
        op.deadline = now + EXPECTATION_MS
        call("HSET", intentsKey, id, opValue(op))
      end
    elseif op then
      if op.state == "p" then
        count = count - 1
        op.deadline = math.max(op.deadline, deadline)
      end
      op.state = "l"
      if planned == "1" then op.mayLand = text(now + MAY_LAND_MS) end
      call("HSET", intentsKey, id, opValue(op))
    end
  end
end
if not moved then
  for at = marksAt, marksEnd, MARKS_SIZE do
    local u = call("HGET", KEYS[tonumber(ARGV[at + MARKS_QUEUE_BASE]) + U], ARGV[at + MARKS_KEY])
    if uidIs(u, ARGV[at + MARKS_UID]) then call("HSET", KEYS[tonumber(ARGV[at + MARKS_INTENTS_SLOT])], MARK, ARGV[at + MARKS_TEXT]) end
  end
  for at = recordsAt, recordsEnd, RECORDS_SIZE do
    local field, value = ARGV[at + RECORDS_FIELD], ARGV[at + RECORDS_TEXT]
    if value == "" then
      call("HDEL", intentsKey, field)
    elseif uidIs(call("HGET", KEYS[queueBase + U], key), ARGV[at + RECORDS_UID]) then
      call("HSET", intentsKey, field, value)
    end
  end
  if ownStatus and left and left > 0 then
    if call("HINCRBY", intentsKey, LEFT, -left) <= 0 then call("HDEL", intentsKey, LEFT) end
  end
end
if stamped then setPending(intentsKey, token, count, now + OP_DEADLINE_MS) end
if changed and not isOwnStatus then add(own, now) end
if moved then return { "retry", bellReplies(), outcomes, moved } end
if outcome == "" then return { "applied", bellReplies(), outcomes } end
local done = endRun(queueBase, key, token, outcome, delayMs, limiterKey) -- WQ8
return { "applied", bellReplies(), outcomes, done }
