-- applyManifest: removes the rows of a lane that are not in the list, if all listed objects have rows; otherwise freezes the lane. The
-- last lane of a list makes the resource SYNCED (§11.5, §11.6, §15 SyncAll). All or nothing.
-- KEYS  lane · meta · needed: of the resource · tally
-- ARGV  fence · generation: number of the list · sequence · listRV · resource · lanePrefix: of the lane's members of `need`
--       isWhole: 0 if earlier parts are missing · rows: listed ones
--       absent: texts that count as absent and are removed (A14): where v|t, key, text
--       GATE (lib/gate.lua): all resources · READERS: controllers that read the resource, and the resources that each reads
--       CHANGES (lib/index.lua): the deletes, at listRV
-- Returns { "noEpoch" } { "epoch" } { "otherProjection" } { "notOpen" } { "fence" } { "duplicate", doorbells } { "early" } { "lanes", resource, number }
--         { "incomplete" } · { "needed", keys } · { "retry", {}, "", 0 } · { "applied", doorbells, outcomes }
local SYNC_ALL_SPREAD_MS, BELLS_MAX = 30000, 500

local full = storeFull()
local refused = otherEpoch() or otherProjection(projection)
if refused then return { refused } end
local state = openLane(laneBase)
refused = otherFence(state, fence)
if refused then return { refused } end
readChanges()
local forgedRows, forgedTombs = {}, {}
for at = absentAt, absentEnd, ABSENT_SIZE do
  local texts = ARGV[at + ABSENT_WHERE] == "v" and forgedRows or forgedTombs
  texts[ARGV[at + ABSENT_KEY]] = ARGV[at + ABSENT_TEXT]
end
if isDuplicate(state, sequence) then
  stillDirty()
  return { "duplicate", bellReplies() }
end
if sequence ~= state.last + 1 then return early(state) end
refused = otherLanes()
if refused then return refused end
if not isWhole then return { "incomplete" } end

-- Verify: every listed row is cached at this version or a later one than the list's, or was deleted after the list (IX9).
local rowsKey, tombsKey = KEYS[laneBase + V], KEYS[laneBase + T]
local listed = {}
for at = rowsAt, rowsEnd, ROWS_SIZE do listed[#listed + 1] = ARGV[at + ROWS_KEY] end
local rows = rowsCount > 0 and hmget(rowsKey, listed) or {}
local missing, present, isListed = {}, 0, {}
for i = 1, rowsCount do
  local rv = ARGV[rowsAt + ROWS_SIZE * (i - 1) + ROWS_RV]
  isListed[listed[i]] = true
  if rows[i] and rows[i] == forgedRows[listed[i]] then
    call("HDEL", rowsKey, listed[i])
    rows[i] = false
  end
  if rows[i] then present = present + 1 end
  if not (rows[i] and isCurrent(head(rows[i]), rv, listRV)) then
    local tomb = call("HGET", tombsKey, listed[i])
    if tomb and tomb == forgedTombs[listed[i]] then
      call("HDEL", tombsKey, listed[i])
      tomb = false
    end
    if not (tomb and head(tomb) ~= rv and isCurrent(head(tomb), rv, listRV)) then missing[#missing + 1] = listed[i] end
  end
end
local function replaceNeeded(keys)
  local old, new = {}, {}
  for _, member in ipairs(call("SMEMBERS", neededKey)) do
    if string.sub(member, 1, #lanePrefix) == lanePrefix then old[#old + 1] = member end
  end
  for i, key in ipairs(keys) do new[i] = lanePrefix .. key end
  bulk("SREM", neededKey, old)
  bulk("SADD", neededKey, new)
end
if #missing > 0 and not full then -- A13
  call("DEL", KEYS[laneBase + MP])
  replaceNeeded(missing)
  call("HSET", KEYS[laneBase], "frozen", "1")
  state.frozen = true
  commit(state, sequence, "")
  return { "needed", missing }
end

-- The deletes of this call must be exactly the cached rows that are absent from the list and not newer than it, unchanged since they
-- were read.
if countsMoved() then return { "retry", {}, "", 0 } end
readItems()
local isSwept = {}
for i = 1, itemsCount do
  local key, row = ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY], itemRows[i]
  if forgedTexts[i] then
    if isListed[key] or not standsForged(i, itemMetas[i], row, itemTombs[i]) then return { "retry", {}, "", 0 } end
  elseif not row or isListed[key] or less(listRV, head(row)) or not asExpected(i, row) then
    return { "retry", {}, "", 0 }
  end
  isSwept[key] = true
  present = present + 1
end
if call("HLEN", rowsKey) > present then
  local all = call("HGETALL", rowsKey)
  for i = 1, #all, 2 do
    if not isListed[all[i]] and not isSwept[all[i]] and not less(listRV, head(all[i + 1])) then return { "retry", {}, "", 0 } end
  end
end

for i = 1, itemsCount do
  local row, tomb = itemRows[i], itemTombs[i]
  if forgedTexts[i] then row, tomb = removeForged(i, itemMetas[i], row, tomb) end
  change(i, itemMetas[i], row, tomb)
  settle(i, itemMetas[i], false, nil)
end
call("DEL", KEYS[laneBase + MP])
replaceNeeded({})
if #missing > 0 then -- FU3: the deletes make room for them
  leftOut(state, metaKey)
  commit(state, sequence, "")
  flush()
  tally(tallyKey, resource .. ":" .. lanePrefix, itemsCount, { applied = itemsCount })
  flushQueue()
  return { "needed", missing }
end
state.frozen = false
state.gen = math.max(state.gen, generation)
call("HSET", KEYS[laneBase], "frozen", "0", "gen", text(state.gen))
commit(state, sequence, listRV)
flush()
local outcomes = string.rep("c", itemsCount)
tally(tallyKey, resource .. ":" .. lanePrefix, itemsCount, fatesOf(outcomes))

local mine
for _, each in ipairs(gateResources) do
  if each.name == resource then mine = each end
end
local reached
for i = 0, mine.lanes - 1 do
  local gen = tonumber(call("HGET", KEYS[mine.l + i], "gen") or 0)
  if not reached or gen < reached then reached = gen end
end
if reached > mine.syncedGen then
  local first = mine.syncedGen == 0
  -- Only a list announced after the SUSPECT mark ends it: the lost data may be newer than an earlier list.
  local wasSuspect = mine.state == "SUSPECT"
  if wasSuspect then first = reached > tonumber(call("HGET", metaKey, "suspectGen") or 0) end
  mine.syncedGen = reached
  call("HSET", metaKey, "syncedGen", text(mine.syncedGen), "listRV", listRV)
  if first then
    mine.state = "SYNCED"
    call("HSET", metaKey, "state", "SYNCED")
    call("HDEL", metaKey, "suspect", "suspectGen")
    if wasSuspect then call("HSET", metaKey, "relisted", text(now)) end
    flushQueue()
    for at = readersAt, readersEnd, READERS_SIZE do
      local base = tonumber(ARGV[at + READERS_QUEUE_BASE])
      local keys, spread = primariesInside(base), {}
      local step = math.min(SYNC_ALL_SPREAD_MS, #keys) / #keys
      for i, key in ipairs(keys) do
        spread[#spread + 1] = text(now + math.floor((i - 1) * step))
        spread[#spread + 1] = key
      end
      for i = 1, #spread, MAX_ARGS do
        call("ZADD", KEYS[base], "LT", unpack(spread, i, math.min(i + MAX_ARGS - 1, #spread)))
      end
    end
    local noted, left = bells, BELLS_MAX
    keyStates, bells = {}, {} -- the writes above have changed ready times
    for _, queue in ipairs(noted) do ringLater(keyState(queue.base, queue.key)) end
    for at = readersAt, readersEnd, READERS_SIZE do
      local base = tonumber(ARGV[at + READERS_QUEUE_BASE])
      if left > 0 and not closed(ARGV[at + READERS_RESOURCES]) then
        for _, key in ipairs(call("ZRANGE", KEYS[base], 0, left - 1)) do
          local queue = keyState(base, key)
          setBell(queue, queue.at, "0")
          ringLater(queue)
          left = left - 1
        end
      end
    end
  end
end
return { "applied", bellReplies(), outcomes }
