-- correlateEvents: `correlate` of shared/api/event-correlator.ts, for one happening after another (EV1). A memory is a hash and a sorted
-- set of its fields by when they were used; what is not of its form counts as absent (EV5).
-- KEYS  1 ep · 2, 3 groups: last ms, keys of late · 4, 5 Events: count, nanos · 6, 7 budgets: tokens, ms
-- ARGV  1 now ms · 2 "" · 3 number of groups, each: source, group · then each happening: number of its group, key, nanos
-- Returns for each happening: nanos, count, 1 if it is combined, 1 if it is held back
local function memory(slot)
  return { hash = KEYS[slot], order = KEYS[slot + 1], read = {}, fields = {} }
end
local groups, events, budgets = memory(2), memory(4), memory(6)

local function parts(value)
  local list = {}
  for part in string.gmatch(value, "[^" .. US .. "]+") do list[#list + 1] = part end
  return list
end

-- Read once, as a list of texts; {} if it is not there.
local function recall(of, field)
  local entry = of.read[field]
  if not entry then
    entry = parts(call("HGET", of.hash, field) or "")
    of.read[field] = entry
  end
  return entry
end

local written = {}
local function remember(of, field, entry)
  of.read[field] = entry
  local id = of.hash .. US .. field
  if not written[id] then
    written[id] = true
    of.fields[#of.fields + 1] = field
  end
end

local function save(of)
  local values, order = {}, {}
  for _, field in ipairs(of.fields) do
    values[#values + 1] = field
    values[#values + 1] = table.concat(of.read[field], US)
    order[#order + 1] = text(now)
    order[#order + 1] = field
  end
  bulk("HSET", of.hash, values)
  bulk("ZADD", of.order, order)
  local over = call("ZCARD", of.order) - EVENT_MEMORY_MAX
  if over > 0 then
    local oldest, gone = call("ZPOPMIN", of.order, over), {}
    for i = 1, #oldest, 2 do gone[#gone + 1] = oldest[i] end
    bulk("HDEL", of.hash, gone)
  end
  call("PEXPIRE", of.hash, EVENT_MEMORY_MS)
  call("PEXPIRE", of.order, EVENT_MEMORY_MS)
end

local function isCombined(group, key)
  local known = recall(groups, group)
  local last = tonumber(known[1] or "")
  local recent = { text(now) }
  local isNew = true
  if last and now - last <= SIMILAR_WITHIN_MS then
    for i = 2, #known do
      recent[i] = known[i]
      if known[i] == key then isNew = false end
    end
  end
  if isNew then recent[#recent + 1] = key end
  local isOver = #recent > SIMILAR_MESSAGES_MAX
  while #recent > SIMILAR_MESSAGES_MAX do table.remove(recent, 2) end
  remember(groups, group, recent)
  return isOver
end

local function counted(name, nanos)
  local known = recall(events, name)
  local count = tonumber(known[1] or "")
  local isOurs = count and count >= 1 and count == math.floor(count) and known[2] and #known[2] <= 16 and not string.find(known[2], "[^0-9a-f]")
  if not isOurs then count, known = 0, { "0", nanos } end
  count = math.min(count + 1, EVENT_COUNT_MAX)
  remember(events, name, { text(count), known[2] })
  return known[2], count
end

-- Go's x/time/rate: less than 1 ns is no time to wait.
local function isHeldBack(source)
  local known = recall(budgets, source)
  local tokens, at = tonumber(known[1] or ""), tonumber(known[2] or "")
  if not (tokens and at and tokens >= 0) then tokens, at = EVENT_BURST, now end
  local left = math.min(EVENT_BURST, tokens + math.max(0, now - at) / 1000 * EVENTS_PER_SECOND) - 1
  local isShort = -left / EVENTS_PER_SECOND * 1e9 >= 1
  if isShort then left, at = tokens, math.min(at, now) else at = now end
  remember(budgets, source, { string.format("%.17g", math.max(0, left)), text(at) })
  return isShort
end

local known, answer = {}, {}
local n = tonumber(ARGV[3])
for i = 1, n do known[i] = { source = ARGV[2 + 2 * i], group = ARGV[3 + 2 * i] } end
for at = 4 + 2 * n, #ARGV, 3 do
  local told, key = known[tonumber(ARGV[at])], ARGV[at + 1]
  local combined = isCombined(told.group, key)
  local nanos, count = counted(combined and told.group or key, ARGV[at + 2])
  answer[#answer + 1] = nanos
  answer[#answer + 1] = count
  answer[#answer + 1] = combined and 1 or 0
  answer[#answer + 1] = isHeldBack(told.source) and 1 or 0
end
save(groups)
save(events)
save(budgets)
return answer
