-- writeThrough: own answers and live reads by A1, A4–A7, A10, and what became of the run's own ops (informer §13 layer 2).
-- KEYS  1 ep · 2… q p f u b z of the run's controller · 8 i of the owner · 9 m of the resource · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 resource · 6 own status 0|1 · 7 number of lanes as the caller believes
--       8 numbers of: lowered ops, planned ops, gone objects, known slices; then how the run ends as in done.lua, or empty, with its delay
--         and the slot of rl (all comma-separated)
--       9… lowered: id · planned: id, mayLand 0|1, or h to hold it pending · gone: key, uid, lane base · slices: owner uid or "-<namespace>", slot
--       then changes (lib/index.lua)
-- Returns { "otherEpoch" } · { "lanes", resource, number } · { "slices", owner, … }: name these too, nothing is done yet
--         { "applied", bells, outcomes, or with an end as done.lua } · { "retry", bells, outcomes, items done }: nothing of the ops is done
if otherEpoch() then return { "otherEpoch" } end
local key, token, ownStatus = ARGV[3], ARGV[4], ARGV[6] == "1"
local laneCount = call("HGET", KEYS[9], "lanes")
if laneCount and laneCount ~= ARGV[7] then return { "lanes", ARGV[5], tonumber(laneCount) } end
local nLower, nPlan, nGone, nSlices, ends, delay, limiter = string.match(ARGV[8], "^(%d+),(%d+),(%d+),(%d+),(%a*),(%d*),(%d*)$")
local lowerAt = 9
local planAt = lowerAt + nLower
local goneAt = planAt + 2 * nPlan
local slicesAt = goneAt + 3 * nGone
readChanges(slicesAt + 2 * nSlices)

local slices = {}
for i = slicesAt, slicesAt + 2 * nSlices - 1, 2 do slices[ARGV[i]] = tonumber(ARGV[i + 1]) end
local function sliceOf(rowKey, row)
  local owner = string.match(row, "^[^\31]*\31[^\31]*\31([^\31]*)")
  return owner ~= "" and owner or "-" .. string.match(rowKey, "^[^/]*")
end
local unknown = {}
for i = goneAt, goneAt + 3 * nGone - 1, 3 do
  local row = call("HGET", KEYS[tonumber(ARGV[i + 2]) + V], ARGV[i])
  if row and not slices[sliceOf(ARGV[i], row)] then unknown[#unknown + 1] = sliceOf(ARGV[i], row) end
end
if #unknown > 0 then return { "slices", unpack(unknown) } end

if changes.items > 0 and countsMoved() then return { "retry", {}, "", 0 } end
local own = keyState(2, key)
local outcomes, moved = applyItems(false, "", true, ownStatus and own or nil)
flush()
local changed = string.find(outcomes, "[cla]") ~= nil
local intents = KEYS[8]
local count, deadline = pendingOf(intents, token)
local stamped = count > 0
if not moved then
  for i = goneAt, goneAt + 3 * nGone - 1, 3 do
    local rowKey, rows = ARGV[i], KEYS[tonumber(ARGV[i + 2]) + V]
    local row = call("HGET", rows, rowKey)
    if row and string.match(row, "^[^\31]*\31([^\31]*)") == ARGV[i + 1] and not isGone(row) then
      flagGone(rows, KEYS[slices[sliceOf(rowKey, row)]], rowKey, row)
      changed = true
    end
  end
  local function ownOp(id) -- IT1
    local value = call("HGET", intents, id)
    local op = value and parseOp(value)
    return op and op.token == token and op or nil
  end
  for i = lowerAt, lowerAt + nLower - 1 do
    local op = ownOp(ARGV[i])
    if op then
      call("HDEL", intents, ARGV[i])
      if op.state == "p" then count = count - 1 end
    end
  end
  for i = planAt, planAt + 2 * nPlan - 1, 2 do
    local op = ownOp(ARGV[i])
    if op and ARGV[i + 1] == "h" then
      if op.state == "p" then
        op.deadline = now + EXPECTATION_MS
        call("HSET", intents, ARGV[i], opValue(op))
      end
    elseif op then
      if op.state == "p" then
        count = count - 1
        op.deadline = math.max(op.deadline, deadline)
      end
      op.state = "l"
      if ARGV[i + 1] == "1" then op.mayLand = text(now + MAY_LAND_MS) end
      call("HSET", intents, ARGV[i], opValue(op))
    end
  end
end
if stamped then setPending(intents, token, count, now + OP_DEADLINE_MS) end
if changed and not ownStatus then add(own, now) end
if moved then return { "retry", bellReplies(), outcomes, moved } end
if ends == "" then return { "applied", bellReplies(), outcomes } end
local done = endRun(2, key, token, ends, delay, KEYS[tonumber(limiter)]) -- WQ8
return { "applied", bellReplies(), outcomes, done }
