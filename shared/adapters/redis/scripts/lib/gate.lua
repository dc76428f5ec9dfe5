-- The gate (informer §11.6). Resources stand in ARGV from `at`: their number, then for each: name, slot of `m`, slot of
-- the first lane's `l`, number of lanes as the caller believes; after them holeLimitMs and the caller's identity:
-- projection, digest prefix, hash layout; last the slot of `guard`, 0 for a caller that ignores stops (GD7).
local SILENCE_MAX_MS = 60000

local gateResources = {}
local holeLimitMs, identity, stop
local function readGate(at)
  local n = tonumber(ARGV[at])
  for i = 1, n do
    local first = at + 1 + 4 * (i - 1)
    gateResources[i] = { name = ARGV[first], m = tonumber(ARGV[first + 1]), l = tonumber(ARGV[first + 2]), lanes = tonumber(ARGV[first + 3]) }
  end
  local next = at + 1 + 4 * n
  holeLimitMs = tonumber(ARGV[next])
  identity = { projection = ARGV[next + 1], digestPrefix = ARGV[next + 2], hashLayout = ARGV[next + 3] }
  local guard = tonumber(ARGV[next + 4])
  stop = guard > 0 and call("HGET", KEYS[guard], "stop") -- GD1: whatever it says
  return next + 5
end

-- { "lanes", resource, number } when the caller believes in another number of lanes, and so named the wrong KEYS.
local function otherLanes()
  for _, resource in ipairs(gateResources) do
    local fields = call("HMGET", KEYS[resource.m], "lanes", "state", "syncedGen", "primary")
    resource.state, resource.syncedGen, resource.primary = fields[2] or "INIT", tonumber(fields[3] or 0), fields[4] or ""
    if fields[1] and tonumber(fields[1]) ~= resource.lanes then return { "lanes", resource.name, tonumber(fields[1]) } end
  end
  return nil
end

-- Why a controller that reads `names` (nil: all that were passed) gets nothing, or nil when the gate is open. After otherLanes().
local closedReason, servedBy = {}, nil
local function resourceClosed(resource)
  if resource.primary ~= "" then -- SL2; asked here, within the step, since a client may not know yet whom it talks to
    servedBy = servedBy or primaryNow()
    if servedBy ~= resource.primary then return OTHER_PRIMARY end
  end
  if resource.state ~= "SYNCED" or resource.syncedGen < 1 then
    local why = resource.state == "SUSPECT" and call("HGET", KEYS[resource.m], "suspect")
    return resource.name .. ": " .. resource.state .. (why and " (" .. why .. ")" or "")
  end
  for i = 0, resource.lanes - 1 do
    local fields = call("HMGET", KEYS[resource.l + i], "ts", "holeSince")
    local ts, hole = tonumber(fields[1] or ""), tonumber(fields[2] or "")
    local where = resource.name .. ": lane " .. i
    if not ts or now - ts > SILENCE_MAX_MS then return where .. " has been silent for more than " .. SILENCE_MAX_MS .. " ms" end
    if hole and now - hole > holeLimitMs then return where .. " has had a hole for more than " .. holeLimitMs .. " ms" end
  end
  return nil
end

local function identityDiffers()
  local fields = call("HMGET", KEYS[1], "projection", "digestPrefix", "hashLayout")
  for i, name in ipairs({ "projection", "digestPrefix", "hashLayout" }) do
    if fields[i] ~= identity[name] then return "the epoch has " .. name .. " " .. tostring(fields[i]) .. ", this build " .. identity[name] end
  end
  return nil
end

local function closed(names)
  if stop then return "stopped" end
  local reason = identityDiffers()
  if reason then return reason end
  for _, resource in ipairs(gateResources) do
    if not names or string.find(names, resource.name, 1, true) then
      if closedReason[resource.name] == nil then closedReason[resource.name] = resourceClosed(resource) or false end
      if closedReason[resource.name] then return closedReason[resource.name] end
    end
  end
  return nil
end
