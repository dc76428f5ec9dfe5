-- checkpoint: records what is sent, proves the fence, and tells what the watcher must mend.
-- KEYS  1 ep · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 number of resources, each: name, slot of m, slot of need, slot of the first l,
--       number of lanes as the caller believes, sent RV or "". Every open resource, and every one with a sent RV, must
--       stand under exactly this fence: a greater one is another leader's, a smaller one says that Redis was set back
-- Returns { "noEpoch" } · { "fenced", stored fence } · { "lanes", resource, number }
--         { "ok", { name, state, syncedGen, gen, hole for ms or -1, frozen lanes, needed keys, Ws }, … }
if otherEpoch() then return { "noEpoch" } end
local resources, greatest, smaller = {}, "0", nil
for i = 1, tonumber(ARGV[4]) do
  local at = 5 + 6 * (i - 1)
  local m = KEYS[tonumber(ARGV[at + 1])]
  local fields = call("HMGET", m, "fence", "lanes", "state", "syncedGen", "gen")
  local fence = fields[1] or "0"
  if (fields[1] or ARGV[at + 5] ~= "") and fence ~= ARGV[3] then
    if less(greatest, fence) then greatest = fence end
    if less(fence, ARGV[3]) then smaller = smaller or fence end
  elseif fields[1] then
    if fields[2] ~= ARGV[at + 4] then return { "lanes", ARGV[at], tonumber(fields[2]) } end
    resources[#resources + 1] = {
      name = ARGV[at], m = m, need = KEYS[tonumber(ARGV[at + 2])], l = tonumber(ARGV[at + 3]), lanes = tonumber(fields[2]),
      sent = ARGV[at + 5], state = fields[3], syncedGen = tonumber(fields[4] or 0), gen = tonumber(fields[5] or 0),
    }
  end
end
if less(ARGV[3], greatest) then return { "fenced", greatest } end
if smaller then return { "fenced", smaller } end
local out = { "ok" }
for _, resource in ipairs(resources) do
  if resource.sent ~= "" then call("HSET", resource.m, "sentRV", resource.sent) end
  local oldest, frozen, marks = nil, {}, {}
  for i = 0, resource.lanes - 1 do
    local fields = call("HMGET", KEYS[resource.l + i], "W", "frozen", "holeSince")
    marks[#marks + 1] = fields[1] or "0"
    if fields[2] == "1" then frozen[#frozen + 1] = i end
    local hole = tonumber(fields[3] or "")
    if hole and (not oldest or hole < oldest) then oldest = hole end
  end
  out[#out + 1] = {
    resource.name, resource.state, resource.syncedGen, resource.gen, oldest and now - oldest or -1, frozen,
    call("SMEMBERS", resource.need), marks, -- need: "<lane>:<key>"
  }
end
return out
