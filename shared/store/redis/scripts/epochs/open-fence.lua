-- openFence: makes a fence the stream of a resource (informer §14 step 3): a greater one resets sequences and holes and keeps W.
-- KEYS  meta: of the resource · lanes: l, v, t, h, mp of each
-- ARGV  fence · laneCount · isBoundToPrimary: 1: another primary may lack writes (SL2); 0: a failover loses none · resource
-- Returns { "noEpoch" } · { "damaged", why } (SL3) · { "fenced", stored fence } · { "lanes", number } if the epoch has another number
--         { "open", state, syncedGen, last, W, gen, frozen 0|1, … for each lane }
if otherEpoch() then return { "noEpoch" } end
evenIfFull()
local fields = call("HMGET", metaKey, "fence", "lanes", "state", "syncedGen", "primary")
local stored, lanesStored = fields[1], fields[2]
if stored and less(fence, stored) then return { "fenced", stored } end
if lanesStored and lanesStored ~= laneCount then return { "lanes", tonumber(lanesStored) } end
-- `ep` records what was opened in this epoch, so that a leader that comes after a loss sees it.
if not stored and call("HGET", epochKey, "opened:" .. resource) then return { "damaged", resource .. " is not there" } end
if stored then
  for base = lanesFrom, #KEYS, LANE_SIZE do
    if call("HEXISTS", KEYS[base], "fence") == 0 then
      return { "damaged", resource .. ": lane " .. (base - lanesFrom) / LANE_SIZE .. " is not there" }
    end
  end
end
local primary = isBoundToPrimary and primaryNow() or ""
if fields[5] and fields[5] ~= "" and primary ~= "" and fields[5] ~= primary then
  suspect(metaKey, OTHER_PRIMARY)
  fields[3] = call("HGET", metaKey, "state")
end
if not stored or less(stored, fence) then
  call("HSET", metaKey, "fence", fence, "lanes", laneCount, "state", fields[3] or "INIT")
  for base = lanesFrom, #KEYS, LANE_SIZE do
    call("HSET", KEYS[base], "fence", fence, "last", "0", "holeSince", "")
    call("DEL", KEYS[base + H], KEYS[base + MP])
  end
end
call("HSET", metaKey, "primary", primary)
call("HSET", epochKey, "opened:" .. resource, "1")
local out = { "open", fields[3] or "INIT", tonumber(fields[4] or 0) }
for base = lanesFrom, #KEYS, LANE_SIZE do
  local state = call("HMGET", KEYS[base], "last", "W", "gen", "frozen")
  out[#out + 1] = tonumber(state[1] or 0)
  out[#out + 1] = state[2] or "0"
  out[#out + 1] = tonumber(state[3] or 0)
  out[#out + 1] = tonumber(state[4] or 0)
end
return out
