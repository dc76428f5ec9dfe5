-- applyManifest: verifies a lane against the list, sweeps what is not listed, and with the last lane of a generation
-- makes the resource SYNCED (§11.5, §11.6, §15 SyncAll). All or nothing.
-- KEYS  1 ep · 2 l · 3 v · 4 t · 5 h · 6 mp of the lane · 7 m · 8 need of the resource · 9 tally · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 generation · 5 sequence · 6 listRV · 7 resource · 8 number of listed rows n
--       9 prefix of the lane in `need` · 10… n keys, n rvs · gate (lib/gate.lua), all resources
--       then the controllers that read the resource: their number, each: queue base, resources it reads
--       then changes (lib/index.lua): the sweep, deletes at listRV
--       then 1, or 0 when earlier parts are missing · number of texts that count as absent and go (A14), three each: v|t, key, text
-- Returns { "noEpoch" } { "epoch" } { "notOpen" } { "fence" } { "duplicate", bells } { "early" } { "lanes", resource, number }
--         { "incomplete" } · { "needed", keys } · { "retry", {}, "", 0 } · { "applied", bells, outcomes }
local SYNC_ALL_SPREAD_MS, BELLS_MAX = 30000, 500

local full = storeFull()
local refused = otherEpoch()
if refused then return { refused } end
local state = openLane(2)
refused = otherFence(state, ARGV[3])
if refused then return { refused } end
local generation, sequence, listRV, n = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[8])
local at = readGate(10 + 2 * n)
local controllers = {}
for i = 1, tonumber(ARGV[at]) do controllers[i] = { base = tonumber(ARGV[at + 2 * i - 1]), reads = ARGV[at + 2 * i] } end
at = readChanges(at + 1 + 2 * #controllers)
local whole = ARGV[at] == "1"
local forgedRows, forgedTombs = {}, {}
for i = at + 2, at + 1 + 3 * tonumber(ARGV[at + 1]), 3 do
  local texts = ARGV[i] == "v" and forgedRows or forgedTombs
  texts[ARGV[i + 1]] = ARGV[i + 2]
end
if isDuplicate(state, sequence) then
  stillDirty()
  return { "duplicate", bellReplies() }
end
if sequence ~= state.last + 1 then return early(state) end
refused = otherLanes()
if refused then return refused end
if not whole then return { "incomplete" } end

-- Verify: every listed row is there in this version or one after the list, or was deleted after the list (IX9).
local listed = {}
for i = 1, n do listed[i] = ARGV[9 + i] end
local rows = n > 0 and hmget(KEYS[2 + V], listed) or {}
local missing, present, isListed = {}, 0, {}
for i = 1, n do
  local rv = ARGV[9 + n + i]
  isListed[listed[i]] = true
  if rows[i] and rows[i] == forgedRows[listed[i]] then
    call("HDEL", KEYS[2 + V], listed[i])
    rows[i] = false
  end
  if rows[i] then present = present + 1 end
  if not (rows[i] and isCurrent(head(rows[i]), rv, listRV)) then
    local tomb = call("HGET", KEYS[2 + T], listed[i])
    if tomb and tomb == forgedTombs[listed[i]] then
      call("HDEL", KEYS[2 + T], listed[i])
      tomb = false
    end
    if not (tomb and head(tomb) ~= rv and isCurrent(head(tomb), rv, listRV)) then missing[#missing + 1] = listed[i] end
  end
end
local function replaceNeeded(keys)
  local old, new, prefix = {}, {}, ARGV[9]
  for _, member in ipairs(call("SMEMBERS", KEYS[8])) do
    if string.sub(member, 1, #prefix) == prefix then old[#old + 1] = member end
  end
  for i, key in ipairs(keys) do new[i] = prefix .. key end
  bulk("SREM", KEYS[8], old)
  bulk("SADD", KEYS[8], new)
end
if #missing > 0 and not full then -- A13
  call("DEL", KEYS[2 + MP])
  replaceNeeded(missing)
  call("HSET", KEYS[2], "frozen", "1")
  state.frozen = true
  commit(state, sequence, "")
  return { "needed", missing }
end

-- The sweep must be exactly the cached rows that are not listed and not newer than the list, as they were read.
if countsMoved() then return { "retry", {}, "", 0 } end
readItems()
local isSwept = {}
for i = 1, changes.items do
  local key, row = ARGV[changes.at + ITEM * (i - 1) + KEY], itemRows[i]
  if changes.forged[i] then
    if isListed[key] or not standsForged(i, itemMetas[i], row, itemTombs[i]) then return { "retry", {}, "", 0 } end
  elseif not row or isListed[key] or less(listRV, head(row)) or not asExpected(i, row) then
    return { "retry", {}, "", 0 }
  end
  isSwept[key] = true
  present = present + 1
end
if call("HLEN", KEYS[2 + V]) > present then
  local all = call("HGETALL", KEYS[2 + V])
  for i = 1, #all, 2 do
    if not isListed[all[i]] and not isSwept[all[i]] and not less(listRV, head(all[i + 1])) then return { "retry", {}, "", 0 } end
  end
end

for i = 1, changes.items do
  local row, tomb = itemRows[i], itemTombs[i]
  if changes.forged[i] then row, tomb = removeForged(i, itemMetas[i], row, tomb) end
  change(i, itemMetas[i], row, tomb)
  settle(i, itemMetas[i], false, nil)
end
call("DEL", KEYS[2 + MP])
replaceNeeded({})
if #missing > 0 then -- FU3: what was swept makes room for them
  leftOut(state, KEYS[7])
  commit(state, sequence, "")
  flush()
  tally(KEYS[9], ARGV[7] .. ":" .. ARGV[9], changes.items, { applied = changes.items })
  flushQueue()
  return { "needed", missing }
end
state.frozen = false
state.gen = math.max(state.gen, generation)
call("HSET", KEYS[2], "frozen", "0", "gen", text(state.gen))
commit(state, sequence, listRV)
flush()
local outcomes = string.rep("c", changes.items)
tally(KEYS[9], ARGV[7] .. ":" .. ARGV[9], changes.items, fatesOf(outcomes))

local mine
for _, resource in ipairs(gateResources) do
  if resource.name == ARGV[7] then mine = resource end
end
local reached
for i = 0, mine.lanes - 1 do
  local gen = tonumber(call("HGET", KEYS[mine.l + i], "gen") or 0)
  if not reached or gen < reached then reached = gen end
end
if reached > mine.syncedGen then
  local first = mine.syncedGen == 0
  -- A list that was begun before the mark may be older than what was lost.
  if mine.state == "SUSPECT" then first = reached > tonumber(call("HGET", KEYS[7], "suspectGen") or 0) end
  mine.syncedGen = reached
  call("HSET", KEYS[7], "syncedGen", text(mine.syncedGen), "listRV", listRV)
  if first then
    mine.state = "SYNCED"
    call("HSET", KEYS[7], "state", "SYNCED")
    call("HDEL", KEYS[7], "suspect", "suspectGen")
    flushQueue()
    for _, controller in ipairs(controllers) do
      local keys, spread = call("HKEYS", KEYS[controller.base + U]), {}
      table.sort(keys)
      local step = math.min(SYNC_ALL_SPREAD_MS, #keys) / #keys
      for i, key in ipairs(keys) do
        spread[#spread + 1] = text(now + math.floor((i - 1) * step))
        spread[#spread + 1] = key
      end
      for i = 1, #spread, MAX_ARGS do
        call("ZADD", KEYS[controller.base], "LT", unpack(spread, i, math.min(i + MAX_ARGS - 1, #spread)))
      end
    end
    local noted, left = bells, BELLS_MAX
    keyStates, bells = {}, {} -- times have changed
    for _, queue in ipairs(noted) do ringLater(keyState(queue.base, queue.key)) end
    for _, controller in ipairs(controllers) do
      if left > 0 and not closed(controller.reads) then
        for _, key in ipairs(call("ZRANGE", KEYS[controller.base], 0, left - 1)) do
          local queue = keyState(controller.base, key)
          setBell(queue, queue.at, "0")
          ringLater(queue)
          left = left - 1
        end
      end
    end
  end
end
return { "applied", bellReplies(), outcomes }
