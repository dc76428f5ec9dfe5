-- checkpoint: records what the watcher has sent and verifies its fence. Returns whether the Store has lost data (SL1, SL3), and the state
-- of each resource, from which the watcher decides what to list again.
-- KEYS  none
-- ARGV  fence · beat: number of this checkpoint · answered: number of the last one with a response · leaderNow: its clock, or ""
--       term: of the leader, or "" · termCount · confirmed: the greatest count with a response (LN3)
--       release: of the cluster, or "" to keep the stored one · queues: their bases
--       resources: with the number of lanes that the caller knows, the slot of a single lane's rows, and the sent RV, or "". Every open resource, and every one with a sent
--         RV, must be stored under exactly this fence: a greater one is another leader's, a smaller one means that Redis lost writes
-- Returns { "noEpoch" } · { "fenced", stored fence } · { "lanes", resource, number, … } · { "setBack", why } · { "damaged", why }
--         { "ok", 1 if the store is full or was recently (FU4), { name, state, syncedGen, gen, hole for ms or -1, frozen lanes, needed keys, Ws, written through or "", applied sequence numbers, rows of a single lane or -1 }, … }
local FULL_MS = 10000 -- rejected messages are redelivered every 5 s

if otherEpoch() then return { "noEpoch" } end
storeFull()
local others = { "lanes" }
local resources, greatest, missing, smaller, moved, servedBy = {}, "0", nil, nil, false, nil
for at = resourcesAt, resourcesEnd, RESOURCES_SIZE do
  local name, sent = ARGV[at + RESOURCES_NAME], ARGV[at + RESOURCES_SENT_RV]
  local m = KEYS[tonumber(ARGV[at + RESOURCES_META_SLOT])]
  local fields = call("HMGET", m, "fence", "lanes", "state", "syncedGen", "gen", "primary", "written")
  if fields[1] then
    if less(greatest, fields[1]) then greatest = fields[1] end
    if less(fields[1], fence) then smaller = smaller or fields[1] end
    if fields[2] ~= ARGV[at + RESOURCES_LANES] then
      others[#others + 1] = name
      others[#others + 1] = tonumber(fields[2])
    end
    if (fields[6] or "") ~= "" then
      servedBy = servedBy or primaryNow()
      moved = moved or servedBy ~= fields[6]
    end
    resources[#resources + 1] = {
      name = name, m = m, need = KEYS[tonumber(ARGV[at + RESOURCES_NEEDED_SLOT])], l = tonumber(ARGV[at + RESOURCES_LANES_BASE]),
      lanes = tonumber(fields[2]), rows = KEYS[tonumber(ARGV[at + RESOURCES_ROWS_SLOT])], sent = sent, state = fields[3], syncedGen = tonumber(fields[4] or 0), gen = tonumber(fields[5] or 0), written = fields[7] or "",
    }
  elseif sent ~= "" then
    missing = missing or name
  end
end
if #others > 1 then return others end
if less(fence, greatest) then return { "fenced", greatest } end

-- Closes every gate in this step and ends all earlier runs; their keys are due at once.
local function lost(kind, why)
  for _, resource in ipairs(resources) do suspect(resource.m, why) end
  for at = queuesAt, queuesEnd do
    local base = tonumber(ARGV[at + QUEUES_BASE])
    for _, key in ipairs(call("HKEYS", KEYS[base + P])) do
      call("ZADD", KEYS[base], "LT", text(now), key)
      call("HDEL", KEYS[base + P], key)
    end
  end
  return { kind, why }
end

if missing then return lost("damaged", missing .. " is missing") end
if smaller then return lost("setBack", "its fence is " .. smaller) end
if moved then return lost("setBack", OTHER_PRIMARY) end
local stored = call("HMGET", epochKey, "checkpoint", "evicted", "term", "termCount")
if term ~= "" then -- LN3
  if stored[3] ~= term then return lost("setBack", "its leadership term is not this watcher's: another leader wrote it, or Redis was rolled back") end
  if tonumber(stored[4]) < (confirmed or 0) then
    return lost("setBack", "it has count " .. stored[4] .. " of the leadership term but has confirmed " .. text(confirmed))
  end
end
local ofFence, held = string.match(stored[1] or "", "^(%d+)\31(%d+)$")
held = ofFence == fence and tonumber(held) or 0
if held < answered then
  return lost("setBack", "it has checkpoint " .. text(held) .. " but has acknowledged " .. text(answered))
end
-- Counted from the server's start, so only comparable on one primary.
local stats = redis.pcall("INFO", "stats")
local evicted = type(stats) == "string" and string.match(stats, "evicted_keys:(%d+)") or "0"
local onPrimary, before = string.match(stored[2] or "", "^([^\31]*)\31(%d+)$")
if onPrimary == (servedBy or "") and tonumber(evicted) > tonumber(before) then
  return lost("damaged", text(tonumber(evicted) - tonumber(before)) .. " keys were evicted: set maxmemory-policy noeviction and more memory")
end

local full = tonumber(call("HGET", epochKey, "full") or "")
local out = { "ok", full and full <= now and now - full < FULL_MS and 1 or 0 }
for _, resource in ipairs(resources) do
  local oldest, frozen, marks, applied = nil, {}, {}, {}
  for i = 0, resource.lanes - 1 do
    local fields = call("HMGET", KEYS[resource.l + i], "W", "frozen", "holeSince", "fence", "last")
    if fields[4] ~= fence then return lost("damaged", resource.name .. ": lane " .. i .. " is missing") end
    marks[#marks + 1] = fields[1] or "0"
    applied[#applied + 1] = tonumber(fields[5] or 0)
    if fields[2] == "1" then frozen[#frozen + 1] = i end
    local hole = tonumber(fields[3] or "")
    if hole and (not oldest or hole < oldest) then oldest = hole end
  end
  out[#out + 1] = {
    resource.name, resource.state, resource.syncedGen, resource.gen, oldest and math.max(0, now - oldest) or -1, frozen,
    call("SMEMBERS", resource.need), marks, resource.written, applied, resource.rows and call("HLEN", resource.rows) or -1, -- need: "<lane>:<key>"
  }
end
for _, resource in ipairs(resources) do
  if resource.sent ~= "" then call("HSET", resource.m, "sentRV", resource.sent) end
end
if release ~= "" then call("HSET", epochKey, "release", release) end
local checkpoint = fence .. US .. text(beat)
call("HSET", epochKey, "checkpoint", checkpoint, "evicted", (servedBy or "") .. US .. evicted)
if leaderNow then -- ST3
  local passed = checkedAt and ofFence == fence and math.max(0, leaderNow - leaderAt)
  if sinceChecked < 0 then
    clockAhead = clockAhead + sinceChecked - math.min(passed or 0, CLOCK_TRUST_MS)
  elseif passed and sinceChecked - passed > CLOCK_TRUST_MS then
    clockAhead = clockAhead + sinceChecked - passed
  end
  call("HSET", epochKey, "clock", table.concat({ checkpoint, text(serverNow), text(clockAhead), text(leaderNow) }, US))
else
  call("HDEL", epochKey, "clock")
end
if term ~= "" then call("HSET", epochKey, "termCount", text(termCount)) end
return out
