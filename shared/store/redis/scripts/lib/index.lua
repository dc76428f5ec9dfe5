-- The index: the effects of one change (A4–A10). A lane is consecutive KEYS from `base` (V, T, H, MP after it):
--   l hash fence, last, W, gen, frozen, holeSince, ts, part · v hash key -> rv, uid, owner, signature, flags
--   t hash key -> rv, uid, signature
--   and where sequences are committed: h zset sequence -> "<sequence>:<watermark>" · mp hash "<list number>.<sequence>" -> rows
-- A slice is a hash key -> flags, rv, uid, signature, object. Flags: "g<ms>" = gone since then (a delete succeeded, the stream
-- has not confirmed it). Signatures are the caller's: scripts copy them and never verify them.

local lanes = {}
local function lane(base)
  local state = lanes[base]
  if not state then
    state = { base = base, W = call("HGET", KEYS[base], "W") or "0", tombs = {} }
    lanes[base] = state
  end
  return state
end

-- Buffers writes until `flush`, which sends one HDEL and one HSET per key for the whole script. `size` includes them.
local puts, dels = {}, {}

local function put(slot, field, value)
  local list = puts[slot]
  if not list then
    list = {}
    puts[slot] = list
  end
  local n = #list
  list[n + 1] = field
  list[n + 2] = value
end

local function del(slot, field)
  local list = dels[slot]
  if not list then
    list = {}
    dels[slot] = list
  end
  list[#list + 1] = field
end

-- Number of entries of a slice including pending writes. Do not call it after `flush`.
local sizes, grown = {}, {}
local function size(slot)
  if not sizes[slot] then sizes[slot] = call("HLEN", KEYS[slot]) end
  return sizes[slot] + (grown[slot] or 0)
end

local function grow(slot, by)
  grown[slot] = (grown[slot] or 0) + by
end

local predecessors = {} -- key, rv of primaries that this call removes
local function notePredecessors()
  local all = {}
  for key, rv in string.gmatch(call("HGET", KEYS[ownCountsSlot], PREDECESSORS) or "", "\31([^\31]+)\31(%d+)") do
    all[#all + 1] = { key, rv }
  end
  for _, each in ipairs(predecessors) do all[#all + 1] = each end
  local floor, out = "", {}
  for i, each in ipairs(all) do
    if i > #all - PREDECESSORS_MAX then
      out[#out + 1] = US .. each[1] .. US .. each[2]
    elseif less(floor, each[2]) then
      floor = each[2]
    end
  end
  if floor ~= "" then out[#out + 1] = US .. "*" .. US .. floor end
  call("HSET", KEYS[ownCountsSlot], PREDECESSORS, table.concat(out))
  predecessors = {}
end

local function flush()
  if #predecessors > 0 then notePredecessors() end
  for slot, fields in pairs(dels) do bulk("HDEL", KEYS[slot], fields) end
  for slot, list in pairs(puts) do bulk("HSET", KEYS[slot], list) end
  puts, dels = {}, {}
  for _, state in pairs(lanes) do
    local keep = {} -- A9: at or below the watermark A6 applies and no tombstone is needed
    for i = 1, #state.tombs, 2 do
      if less(state.W, head(state.tombs[i + 1])) then
        keep[#keep + 1] = state.tombs[i]
        keep[#keep + 1] = state.tombs[i + 1]
      end
    end
    bulk("HSET", KEYS[state.base + T], keep)
    state.tombs = {}
  end
end

-- Changes: `CHANGES` of ../layouts.ts. `ownBase`: queue whose primaries the items are (0: pods), `ownCountsSlot`: their counts (n),
-- `loweredQueues`: queues of lowered ops ("controller:base,…"); then
--   items: value = row of a put, tombstone of a delete, "rv 0x1F uid" of a gone object · entry = of the slice
--     expected = "" none, only the rv when uid and owner are those of `value`, else the row to its signature
--     meta = kind P|D|G (gone), lane base, slot of the new slice, of the old one, flags 1 same uid, 2 counted, 4 unread, 8 outside,
--            slot of the namespace's primaries (k), slot of i:<old uid>, slot of i:<owner> whose op c:<name of the key> it lowers,
--            effects from 1;
--            slots of slices that an outside primary owns, if it has no row yet
--   effects: meta = queue base, a|s, self 0|1, slot of the dependents' slice, uid
--   lowers: other lowered ops, item from 1 · counts: of namespaces · forged: item from 1, where v|s|t, text ("": nothing is stored there)
local loweredOps, forgedTexts, queueOf = {}, {}, {} -- item -> { slot, op, … } · item -> texts · controller -> base
local function readChanges()
  for name, base in string.gmatch(loweredQueues, "([^:,]+):(%d+)") do queueOf[name] = tonumber(base) end
  for at = lowersAt, lowersEnd, LOWERS_SIZE do
    local item = tonumber(ARGV[at + LOWERS_ITEM])
    local list = loweredOps[item] or {}
    loweredOps[item] = list
    list[#list + 1] = tonumber(ARGV[at + LOWERS_INTENTS_SLOT])
    list[#list + 1] = ARGV[at + LOWERS_OP]
  end
  for at = forgedAt, forgedEnd, FORGED_SIZE do
    local item = tonumber(ARGV[at + FORGED_ITEM])
    local list = forgedTexts[item] or {}
    forgedTexts[item] = list
    list[#list + 1] = { where = ARGV[at + FORGED_WHERE], slot = tonumber(ARGV[at + FORGED_SLICE_SLOT]), text = ARGV[at + FORGED_TEXT] }
  end
end

-- IX8: whether a namespace count has changed since the look-ups.
local function countsMoved()
  for at = countsAt, countsEnd, COUNTS_SIZE do
    local count = call("HGET", KEYS[tonumber(ARGV[at + COUNTS_COUNTS_SLOT])], ARGV[at + COUNTS_NAMESPACE]) or "0"
    local seen = ARGV[at + COUNTS_COUNT]
    if count ~= seen then return true end
  end
  return false
end

-- The distinct effects of the call, with their keys' queue states; read together with the items.
local effects = {}
local function readEffects()
  local byBase, seen = {}, {}
  for index = 1, effectsCount do
    local at = effectsAt + EFFECTS_SIZE * (index - 1)
    local base, urgency, self, dependents, uid = string.match(ARGV[at + EFFECTS_META], "^(%d+),(%a),(%d),(%d+),(.*)$")
    local e = {
      act = urgency == "a", self = self == "1", dependents = tonumber(dependents),
      uid = uid, base = tonumber(base), key = ARGV[at + EFFECTS_KEY],
    }
    effects[index] = e
    local keys = byBase[e.base]
    if not keys then
      keys = {}
      byBase[e.base], seen[e.base] = keys, {}
    end
    if not seen[e.base][e.key] and not (keyStates[e.base] and keyStates[e.base][e.key]) then
      seen[e.base][e.key] = true
      keys[#keys + 1] = e.key
    end
  end
  for base, keys in pairs(byBase) do
    for first = 1, #keys, MAX_ARGS do
      prefetch(base, { unpack(keys, first, math.min(first + MAX_ARGS - 1, #keys)) })
    end
  end
  for index = 1, effectsCount do
    local e = effects[index]
    e.state = keyStates[e.base][e.key]
  end
end

local STATUS_WAIT_MAX_MS = 1000
-- A status effect is due at the end of the key's last run (now, while one is in progress) + 1 ms for each dependent.
local function statusTime(e)
  local state = e.state
  if not state.z then state.z = parseZ(call("HGET", KEYS[e.base + P], e.key), call("HGET", KEYS[e.base + Z], e.key)) end
  return math.max(now, state.z + math.min(STATUS_WAIT_MAX_MS, size(e.dependents)))
end

local function queueEffect(e)
  local state = e.state
  if state.at and state.at <= now then return end
  if not e.self and not uidIs(primaryOf(state), e.uid) then return end
  add(state, e.act and now or statusTime(e))
end

local metas = {}
local function metaOf(source)
  local kind, base, new, old, flags, k, i, c, list, owned =
    string.match(source, "^(%a),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),([^;]*);(.*)$")
  flags = tonumber(flags)
  local meta = {
    delete = kind == "D", gone = kind == "G", lane = tonumber(base), new = tonumber(new), old = tonumber(old),
    same = flags % 2 == 1, counted = flags % 4 >= 2, unread = flags % 8 >= 4, outside = flags >= 8, k = tonumber(k), i = tonumber(i), c = tonumber(c),
    effects = {}, owned = owned,
  }
  for index in string.gmatch(list, "%d+") do meta.effects[#meta.effects + 1] = tonumber(index) end
  metas[source] = meta
  return meta
end

-- Rows and tombstones of all items, read before the first changes anything (a call holds one item per key), and which
-- owners have intents at all.
local itemMetas, itemRows, itemTombs = {}, {}, {}
local intentsExist = {} -- slot -> whether there are any; nil: not read yet
local function readItems()
  local byLane, owners, asked = {}, {}, {}
  local function ask(slot)
    if slot > 0 and not asked[slot] then
      asked[slot] = true
      owners[#owners + 1] = KEYS[slot]
    end
  end
  local at = itemsAt
  local group, groupLane
  for i = 1, itemsCount do
    local source = ARGV[at + ITEMS_META]
    local meta = metas[source]
    if not meta then
      meta = metaOf(source)
      ask(meta.c)
    end
    itemMetas[i] = meta
    if groupLane ~= meta.lane then
      groupLane = meta.lane
      group = byLane[groupLane]
      if not group then
        group = { n = 0, keys = {}, items = {} }
        byLane[groupLane] = group
      end
    end
    local n = group.n + 1
    group.n, group.keys[n], group.items[n] = n, ARGV[at + ITEMS_KEY], i
    at = at + ITEMS_SIZE
  end
  for each = lowersAt, lowersEnd, LOWERS_SIZE do ask(tonumber(ARGV[each + LOWERS_INTENTS_SLOT])) end
  local any = false
  for first = 1, #owners, MAX_ARGS do
    if call("EXISTS", unpack(owners, first, math.min(first + MAX_ARGS - 1, #owners))) > 0 then any = true end
  end
  if not any then
    for slot in pairs(asked) do intentsExist[slot] = false end
  end
  for base, group in pairs(byLane) do
    lane(base)
    local rows = hmget(KEYS[base + V], group.keys)
    local tombs = call("HLEN", KEYS[base + T]) > 0 and hmget(KEYS[base + T], group.keys)
    for j = 1, #group.items do
      itemRows[group.items[j]] = rows[j]
      itemTombs[group.items[j]] = tombs and tombs[j]
    end
  end
  readEffects()
end

-- IX8: whether the row is unchanged since the item's effects were computed.
local function asExpected(i, row)
  local at = itemsAt + ITEMS_SIZE * (i - 1)
  local expected = ARGV[at + ITEMS_EXPECTED]
  if expected == "" then return not row end
  if not row or string.sub(row, 1, #expected) ~= expected then return false end
  if string.byte(row, #expected + 1) ~= 31 then return string.byte(expected, -1) == 31 end
  -- Only the rv is given: the rest, up to the signature, must equal the new row.
  local rest = string.match(ARGV[at + ITEMS_VALUE], "^[^\31]*(\31[^\31]*\31[^\31]*\31)")
  return string.sub(row, #expected + 1, #expected + #rest) == rest
end

local function lower(slot, id, quiet)
  local key = KEYS[slot]
  if intentsExist[slot] == nil then intentsExist[slot] = call("EXISTS", key) == 1 end
  if not intentsExist[slot] then return end
  if id == LEFT then
    if call("HEXISTS", key, MARK) == 1 then call("HINCRBY", key, LEFT, 1) end
    return
  end
  local value = call("HGET", key, id)
  if not value then return end
  local op = parseOp(value)
  lowerOp(key, id, op)
  local base = queueOf[op.controller]
  if base and not quiet then add(keyState(base, op.key), now) end
end

-- A row without flags ends with the separator that precedes flags.
local function isGone(row)
  return string.byte(row, -1) ~= 31
end

-- Flags a row and its entry as gone: readers treat them as deleted until the stream confirms it.
local GONE = "g" .. text(now)
local function flagGone(rows, slice, key, row)
  call("HSET", rows, key, row .. GONE)
  local entry = call("HGET", slice, key)
  if entry then call("HSET", slice, key, GONE .. entry) end
end

-- A14: whether the forged values are still stored unchanged.
local function standsForged(i, meta, row, tomb)
  local key = ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY]
  for _, each in ipairs(forgedTexts[i]) do
    local found = row
    if each.where == "t" then found = tomb end
    if each.where == "s" then found = call("HGET", KEYS[each.slot], key) end
    if (found or "") ~= each.text then return false end
  end
  return true
end

local function isForged(i, where)
  for _, each in ipairs(forgedTexts[i]) do
    if each.where == where then return true end
  end
  return false
end

-- A14: removes the forged values. Returns the remaining row and tombstone.
local function removeForged(i, meta, row, tomb)
  local key = ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY]
  for _, each in ipairs(forgedTexts[i]) do
    if each.where == "v" then
      call("HDEL", KEYS[meta.lane + V], key)
      row = false
    elseif each.where == "t" then
      call("HDEL", KEYS[meta.lane + T], key)
      tomb = false
    elseif each.text ~= "" then
      call("HDEL", KEYS[each.slot], key)
      if sizes[each.slot] then sizes[each.slot] = sizes[each.slot] - 1 end
    end
  end
  return row, tomb
end

-- A7, A9, gone: changes the row, its slice entry and the data of a primary.
local function change(i, meta, row, tomb)
  local at = itemsAt + ITEMS_SIZE * (i - 1)
  local key, value = ARGV[at + ITEMS_KEY], ARGV[at + ITEMS_VALUE]
  local state = lanes[meta.lane]
  if meta.gone then
    flagGone(KEYS[meta.lane + V], KEYS[meta.old], key, row)
    return
  end
  if meta.old > 0 and meta.old ~= meta.new then
    del(meta.old, key)
    grow(meta.old, -1)
  end
  if meta.delete then
    if row then del(meta.lane + V, key) end
    local rv = head(value)
    if less(state.W, rv) and not (tomb and not less(head(tomb), rv)) then
      state.tombs[#state.tombs + 1] = key
      state.tombs[#state.tombs + 1] = value
    end
  else
    local entry = ARGV[at + ITEMS_ENTRY]
    -- A7. IX9 replaces a newer row, whose flag `gone` belongs to the lost history and is dropped.
    if row and meta.same and not forgedTexts[i] and isGone(row) and less(head(row), head(value)) then
      local flags = string.match(row, "\31(g%d*)$") or ""
      value = value .. flags
      entry = flags .. entry
    end
    put(meta.lane + V, key, value)
    put(meta.new, key, entry)
    if meta.old ~= meta.new then grow(meta.new, 1) end
  end
  if ownBase > 0 then
    if meta.delete then
      local queue = keyState(ownBase, key)
      queue.u = false
      queue.z = nil
      call("HDEL", KEYS[ownBase + U], key)
      call("HDEL", KEYS[ownBase + Z], key)
      call("HDEL", KEYS[ownBase + F], key)
      if meta.k > 0 then call("SREM", KEYS[meta.k], key) end
    else
      -- Written even if unchanged, which repairs a damaged u or k (primaries of the queue, of a namespace): without them `take` would
      -- never return the key.
      local u, queue = string.match(value, "^[^\31]*\31([^\31]*\31[^\31]*)"), keyState(ownBase, key)
      if meta.outside then u = u .. US end
      queue.u = u
      call("HSET", KEYS[ownBase + U], key, u)
      if meta.k > 0 then call("SADD", KEYS[meta.k], key) end
      for slot in string.gmatch(meta.owned, "%d+") do
        if call("EXISTS", KEYS[tonumber(slot)]) == 1 then add(queue, now) end
      end
    end
    if meta.i > 0 then call("DEL", KEYS[meta.i]) end -- IT4
    if row and (meta.delete or not meta.same) then predecessors[#predecessors + 1] = { key, head(value) } end
    if meta.counted then call("HINCRBY", KEYS[ownCountsSlot], string.match(key, "^[^/]*"), 1) end
  end
end

-- Applies the effects of a changed row: settles intents (for an event of the stream, also enqueues the key that registered them) and
-- enqueues the affected keys.
local function settle(i, meta, quiet, skip)
  if meta.c > 0 and intentsExist[meta.c] ~= false then
    lower(meta.c, "c:" .. string.match(ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY], "/(.*)$"), quiet)
  end
  local lowers = loweredOps[i]
  if lowers then
    for j = 1, #lowers, 2 do lower(lowers[j], lowers[j + 1], quiet) end
  end
  local list = meta.effects
  for j = 1, #list do
    local e = effects[list[j]]
    if e.state ~= skip then queueEffect(e) end
  end
end

-- Whether any item is a put.
local function hasPuts()
  for i = 1, itemsCount do
    if string.byte(ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_META]) == 80 then return true end
  end
  return false
end

-- FU2: an item was skipped, so the resource is marked SUSPECT: only a list that begins after this delivers the item again.
local function leftOut(state, meta)
  suspect(meta, FULL)
  call("HSET", KEYS[state.base], "frozen", "1")
  state.frozen = true
end

-- IX10: whether an unread row is absent, or equals the item's row including the signature, which only a holder of the MAC key can make.
local function asGuessed(i, meta, row, tomb)
  local at = itemsAt + ITEMS_SIZE * (i - 1)
  if meta.delete or meta.gone or tomb then return false end
  if row then return row == ARGV[at + ITEMS_VALUE] end
  return ARGV[at + ITEMS_EXPECTED] == ""
end

-- The stored values of the items from `first` on: row, tombstone, entry in the item's slice; "" for none.
local function standing(first)
  local out = {}
  for i = first, itemsCount do
    local meta = itemMetas[i]
    local slot = meta.new > 0 and meta.new or meta.old
    out[#out + 1] = itemRows[i] or ""
    out[#out + 1] = itemTombs[i] or ""
    out[#out + 1] = itemRows[i] and slot > 0 and call("HGET", KEYS[slot], ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY]) or ""
  end
  return out
end

-- Whether an item replaced a row or tombstone of a lost history (IX9).
local historyLost = false

local function ownerIn(text)
  return string.match(text, "^[^\31]*\31[^\31]*\31([^\31]*)")
end

-- Applies the items in order. `listed`: A6 does not apply (L). `listRV`: the version of their list, or "" (IX9).
-- `quiet`: the key whose run writes through; settled intents queue no key. `skip`: a queue state that effects do not
-- queue (the primary whose own status was written). `full`: the store is full, so puts are skipped (FU2).
-- Returns the outcomes (c changed, s same, l late, a absent, f skipped), and the number of items done before one whose row had changed (IX8).
local function applyItems(listed, listRV, quiet, skip, full)
  readItems()
  local outcomes = {}
  for i = 1, itemsCount do
    local meta, row, tomb = itemMetas[i], itemRows[i], itemTombs[i]
    local value = ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_VALUE]
    local rv = head(value)
    local outcome = "c"
    local healing = forgedTexts[i] ~= nil
    if meta.unread and not asGuessed(i, meta, row, tomb) then return table.concat(outcomes), i - 1 end
    if healing then
      if not standsForged(i, meta, row, tomb) then return table.concat(outcomes), i - 1 end
      -- A newer version came after the live read: read again.
      if not meta.delete and row and not isForged(i, "v") and less(rv, head(row)) then return table.concat(outcomes), i - 1 end
      row, tomb = removeForged(i, meta, row, tomb)
    elseif meta.gone then
      local uid = string.match(value, "\31(.*)$")
      if not row or isGone(row) or string.match(row, "^[^\31]*\31([^\31]*)") ~= uid then outcome = "s" end
    elseif meta.delete then
      if row and less(rv, head(row)) then outcome = "s" end -- A8
    elseif row and isCurrent(head(row), rv, listRV) then
      -- A4. Never `l` for the run's own primary: after a restore of etcd, live reads of it stay older than its row.
      local itemKey = ARGV[itemsAt + ITEMS_SIZE * (i - 1) + ITEMS_KEY]
      outcome = quiet and quiet ~= itemKey and ownerIn(row) ~= ownerIn(value) and "l" or "s"
    elseif tomb and isCurrent(head(tomb), rv, listRV) then outcome = "l" -- A5
    elseif not row and not listed and not less(lanes[meta.lane].W, rv) then outcome = "a" -- A6
    end
    if full and outcome == "c" and not meta.delete and not meta.gone then outcome = "f" end
    if outcome == "c" then
      if not healing and not asExpected(i, row) then return table.concat(outcomes), i - 1 end
      local before = row or tomb
      if not healing and not meta.delete and not meta.gone and before and less(rv, head(before)) then historyLost = true end
      change(i, meta, row, tomb)
      settle(i, meta, quiet, skip)
    end
    outcomes[i] = outcome
  end
  return table.concat(outcomes), nil
end
