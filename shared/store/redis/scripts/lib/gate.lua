-- The gate (informer §11.6): `GATE` of ../layouts.ts. Each resource has the number of lanes that the caller knows, and the slot of the
-- first lane's `l`.
local SILENCE_MAX_MS = 60000

local gateResources = {}
for at = gateAt, gateEnd, GATE_SIZE do
  gateResources[#gateResources + 1] = {
    name = ARGV[at + GATE_RESOURCE], m = tonumber(ARGV[at + GATE_META_SLOT]),
    l = tonumber(ARGV[at + GATE_LANES_BASE]), lanes = tonumber(ARGV[at + GATE_LANES]),
  }
end
local stop = stopSlot > 0 and stopOf(KEYS[stopSlot])

-- Returns { "lanes", resource, number, … } if the epoch has other numbers of lanes than the caller knows, and KEYS are therefore wrong.
local function otherLanes()
  local others = { "lanes" }
  for _, resource in ipairs(gateResources) do
    local fields = call("HMGET", KEYS[resource.m], "lanes", "state", "syncedGen", "primary", "fence", "suspects", "relisted")
    resource.fence, resource.suspects, resource.relisted = fields[5] or "", tonumber(fields[6] or 0), fields[7] or ""
    resource.state, resource.syncedGen, resource.primary = fields[2] or "INIT", tonumber(fields[3] or 0), fields[4] or ""
    if fields[1] and tonumber(fields[1]) ~= resource.lanes then
      others[#others + 1] = resource.name
      others[#others + 1] = tonumber(fields[1])
    end
  end
  return #others > 1 and others or nil
end

-- Why a controller that reads `names` (nil: all passed ones) gets no keys, or nil when the gate is open. Call after otherLanes().
local closedReason, servedBy, isOverEpochsMax = {}, nil, nil
local function resourceClosed(resource)
  if resource.primary ~= "" then -- SL2; here, because the client may not know which primary serves it
    servedBy = servedBy or primaryNow()
    if servedBy ~= resource.primary then return OTHER_PRIMARY end
  end
  if resource.state ~= "SYNCED" or resource.syncedGen < 1 then
    local why = resource.state == "SUSPECT" and call("HGET", KEYS[resource.m], "suspect")
    return resource.name .. ": " .. resource.state .. (why and " (" .. why .. ")" or "")
  end
  for i = 0, resource.lanes - 1 do
    local fields = call("HMGET", KEYS[resource.l + i], "ts", "holeSince", "W")
    local W = fields[3] or "0"
    if not resource.W or less(W, resource.W) then resource.W = W end -- the least watermark; considers all lanes if the gate is open
    local ts, hole = tonumber(fields[1] or ""), tonumber(fields[2] or "")
    local where = resource.name .. ": lane " .. i
    if not ts or uncheckedNow - ts > SILENCE_MAX_MS then return where .. " has been silent for more than " .. SILENCE_MAX_MS .. " ms" end
    if hole and uncheckedNow - hole > holeLimitMs then return where .. " has had a hole in its sequence for more than " .. holeLimitMs .. " ms" end
  end
  return nil
end

local function identityDiffers()
  local fields = call("HMGET", epochKey, "projection", "digestPrefix", "hashLayout")
  local ours = { projection, digestPrefix, hashLayout }
  for i, name in ipairs({ "projection", "digestPrefix", "hashLayout" }) do
    if ours[i] ~= "" and fields[i] ~= ours[i] then return "the epoch has " .. name .. " " .. tostring(fields[i]) .. ", this build " .. ours[i] end
  end
  return nil
end

-- The same text as otherRelease in ../../../store-options.ts. `releases` is "" for a caller that makes no decisions.
local function otherRelease()
  local release = call("HGET", epochKey, "release")
  if not release or releases == "" or string.find(", " .. releases .. ",", ", " .. release .. ",", 1, true) then return nil end
  return "the cluster runs Kubernetes " .. release .. ", and this build supports only " .. releases
end

local function closed(names)
  if stop then return "stopped" end
  if isOverEpochsMax == nil then isOverEpochsMax = recentEpochs(call("GET", KEYS[openedSlot]) or "") >= EPOCHS_MAX end
  if isOverEpochsMax then return EPOCHS_REASON end
  if sinceChecked < -CLOCK_TRUST_MS then return "the store's clock was set back: waiting for the next checkpoint" end
  local reason = identityDiffers() or otherRelease()
  if reason then return reason end
  for _, resource in ipairs(gateResources) do
    if not names or string.find("," .. names .. ",", "," .. resource.name .. ",", 1, true) then
      if closedReason[resource.name] == nil then closedReason[resource.name] = resourceClosed(resource) or false end
      if closedReason[resource.name] then return closedReason[resource.name] end
    end
  end
  return nil
end
