-- correlateEvents: `correlate` of shared/kube/events/event-correlator.ts, for each Event (happening) in order (EV1). A memory is a hash,
-- and a sorted set of its fields by their last use; a value of another form counts as absent (EV5). The epoch is not compared.
-- KEYS  groups: last ms, recent keys · groupsOrder · events: count, nanos · eventsOrder · budgets: tokens, ms · budgetsOrder
-- ARGV  sources: source, group · happenings: index in `sources` (from 1), key, nanos
-- Returns for each happening: nanos, count, 1 if it is combined, 1 if it is dropped by the rate limit
local function parts(value)
  local list = {}
  for part in string.gmatch(value, "[^" .. US .. "]+") do list[#list + 1] = part end
  return list
end

local groups = { hash = groupsKey, order = groupsOrderKey, entries = {}, fields = {} }
function groups.parse(list)
  local last = tonumber(list[1] or "")
  if not last then return { last = 0, keys = {} } end
  table.remove(list, 1)
  return { last = last, keys = list }
end
function groups.format(entry) return text(entry.last) .. US .. table.concat(entry.keys, US) end

local events = { hash = eventsKey, order = eventsOrderKey, entries = {}, fields = {} }
function events.parse(list)
  local count, nanos = tonumber(list[1] or ""), list[2]
  local isOurs = count and count >= 1 and count == math.floor(count) and nanos and #nanos <= 16 and not string.find(nanos, "[^0-9a-f]")
  return isOurs and { count = count, nanos = nanos } or { count = 0 }
end
function events.format(entry) return text(entry.count) .. US .. entry.nanos end

local budgets = { hash = budgetsKey, order = budgetsOrderKey, entries = {}, fields = {} }
function budgets.parse(list)
  local tokens, at = tonumber(list[1] or ""), tonumber(list[2] or "")
  if not (tokens and at and tokens >= 0) then return { tokens = EVENT_BURST, at = now } end
  return { tokens = tokens, at = math.min(at, now) }
end
function budgets.format(entry) return string.format("%.17g", math.max(0, entry.tokens)) .. US .. text(entry.at) end

-- Read once and changed in place; `save` writes all of them, because every value read is changed.
local function recall(of, field)
  local entry = of.entries[field]
  if not entry then
    entry = of.parse(parts(call("HGET", of.hash, field) or ""))
    of.entries[field] = entry
    of.fields[#of.fields + 1] = field
  end
  return entry
end

local function save(of)
  local values, order = {}, {}
  for _, field in ipairs(of.fields) do
    values[#values + 1] = field
    values[#values + 1] = of.format(of.entries[field])
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

local function isCombined(name, key)
  local group = recall(groups, name)
  if now - group.last > SIMILAR_WITHIN_MS then group.keys = {} end
  group.last = now
  local keys, isNew = group.keys, true
  for i = 1, #keys do
    if keys[i] == key then isNew = false end
  end
  if isNew then keys[#keys + 1] = key end
  local isOver = #keys >= SIMILAR_MESSAGES_MAX
  while #keys >= SIMILAR_MESSAGES_MAX do table.remove(keys, 1) end
  return isOver
end

-- Go's x/time/rate: a delay of less than 1 ns counts as none.
local function isHeldBack(source)
  local budget = recall(budgets, source)
  local left = math.min(EVENT_BURST, budget.tokens + (now - budget.at) / 1000 * EVENTS_PER_SECOND) - 1
  if -left / EVENTS_PER_SECOND * 1e9 >= 1 then return true end
  budget.tokens, budget.at = left, now
  return false
end

local known, answer = {}, {}
for at = sourcesAt, sourcesEnd, SOURCES_SIZE do
  known[#known + 1] = { source = ARGV[at + SOURCES_SOURCE], group = ARGV[at + SOURCES_GROUP] }
end
for at = happeningsAt, happeningsEnd, HAPPENINGS_SIZE do
  local happened, key = known[tonumber(ARGV[at + HAPPENINGS_SOURCE])], ARGV[at + HAPPENINGS_KEY]
  local combined = isCombined(happened.group, key)
  local event = recall(events, combined and happened.group or key)
  event.nanos = event.nanos or ARGV[at + HAPPENINGS_NANOS]
  event.count = math.min(event.count + 1, EVENT_COUNT_MAX)
  answer[#answer + 1] = event.nanos
  answer[#answer + 1] = event.count
  answer[#answer + 1] = combined and 1 or 0
  answer[#answer + 1] = isHeldBack(happened.source) and 1 or 0
end
save(groups)
save(events)
save(budgets)
return answer
