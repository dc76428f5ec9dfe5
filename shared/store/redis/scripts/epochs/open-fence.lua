-- openFence: sets the fence of a resource's stream (informer §14 step 3). A greater fence resets sequences and holes and keeps the
-- watermarks (W).
-- KEYS  meta: of the resource · lanes: l, v, t, h, mp of each
-- ARGV  fence · laneCount · grows: 1: spreads one lane over `laneCount` (LG2) · isBoundToPrimary: 1: another primary may lack writes (SL2); 0: a failover loses none · resource
--       term: of the leader, or "" · termCount · expected: the stored term that it has read · proofTerm: "" for no proof (LN2) · proofCount
--       proofFence · proofNumber · isProofExact · unprovenReason
-- Returns { "foreign" }: a term other than the expected one · { "equalFence" }: stored under another term · { "noEpoch" } · { "damaged", why } (SL3) · { "fenced", stored fence } · { "lanes", number } if the epoch has another number
--         { "open", state, syncedGen, last, W, gen, frozen 0|1, … for each lane }
if otherEpoch() then return { "noEpoch" } end
local isFull = grows and storeFull()
evenIfFull()
local fields = call("HMGET", metaKey, "fence", "lanes", "state", "syncedGen", "primary", "term")
local stored, lanesStored = fields[1], fields[2]
if stored and less(fence, stored) then return { "fenced", stored } end
local spreads = grows and lanesStored == "1" and laneCount ~= "1" and stored and less(stored, fence) and not isFull
if lanesStored and lanesStored ~= laneCount and not spreads then return { "lanes", tonumber(lanesStored) } end
local lanesEnd = spreads and lanesFrom or #KEYS
-- `ep` records the resources opened in this epoch, so that a leader after a loss detects missing ones.
if not stored and call("HGET", epochKey, "opened:" .. resource) then return { "damaged", resource .. " is missing" } end
if stored then
  for base = lanesFrom, lanesEnd, LANE_SIZE do
    if call("HEXISTS", KEYS[base], "fence") == 0 then
      return { "damaged", resource .. ": lane " .. (base - lanesFrom) / LANE_SIZE .. " is missing" }
    end
  end
end
local raises = not stored or less(stored, fence)
if term ~= "" then
  local of = lineageNow()
  local isFirst = call("HGET", epochKey, "term") ~= term
  if isFirst and (of.term or "") ~= expected then return { "foreign" } end
  if not raises and fields[6] ~= term then return { "equalFence" } end
  if isFirst then
    local isProven = proofTerm ~= "" and of.term == proofTerm and of.fence == proofFence
    if isProven then
      local counts, numbers = tonumber(of.count) - proofCount, tonumber(of.number) - proofNumber
      isProven = counts == 0 and numbers == 0 or not isProofExact and counts >= 0 and numbers >= 0
    end
    call("HSET", epochKey, "term", term, "termCount", termCount, "termFence", fence, "proven", isProven and "1" or "0")
  elseif call("HGET", epochKey, "termFence") ~= fence then
    call("HSET", epochKey, "termFence", fence)
  end
  if raises and fields[3] == "SYNCED" and call("HGET", epochKey, "proven") ~= "1" then
    suspect(metaKey, unprovenReason)
    fields[3] = "SUSPECT"
  end
elseif raises then
  call("HDEL", epochKey, "term", "termCount", "termFence", "proven")
end

-- CRC-32 of zlib, as in ../../../lane.ts.
local function crc32Of()
  local bytes = {}
  for byte = 0, 255 do
    local value = byte
    for _ = 1, 8 do
      value = bit.band(value, 1) == 1 and bit.bxor(bit.rshift(value, 1), 0xEDB88320) or bit.rshift(value, 1)
    end
    bytes[byte] = value
  end
  return function(key)
    local value = -1
    for i = 1, #key do
      value = bit.bxor(bit.rshift(value, 8), bytes[bit.band(bit.bxor(value, string.byte(key, i)), 255)])
    end
    return bit.bnot(value) % 4294967296
  end
end
-- LG2. The raised fence below resets sequences and holes. Redis keeps the writes of a failed script, so all reads come first.
local function spread()
  local count, crc32 = tonumber(laneCount), crc32Of()
  local state, texts = call("HMGET", KEYS[lanesFrom], "W", "gen", "frozen", "ts"), {}
  for _, part in ipairs({ V, T }) do texts[part] = call("HGETALL", KEYS[lanesFrom + part]) end
  for base = lanesFrom + LANE_SIZE, #KEYS, LANE_SIZE do
    for part = 0, LANE_SIZE - 1 do call("DEL", KEYS[base + part]) end
    call("HSET", KEYS[base], "W", state[1] or "0", "gen", state[2] or "0", "frozen", state[3] or "0")
    if state[4] then call("HSET", KEYS[base], "ts", state[4]) end
  end
  for part, all in pairs(texts) do
    local moves, leaves = {}, {}
    for i = 1, #all, 2 do
      local lane = crc32(all[i]) % count
      if lane > 0 then
        local to = moves[lane] or {}
        moves[lane] = to
        to[#to + 1] = all[i]
        to[#to + 1] = all[i + 1]
        leaves[#leaves + 1] = all[i]
      end
    end
    for lane, fieldsAndValues in pairs(moves) do bulk("HSET", KEYS[lanesFrom + LANE_SIZE * lane + part], fieldsAndValues) end
    bulk("HDEL", KEYS[lanesFrom + part], leaves)
  end
end
if spreads then spread() end
local primary = isBoundToPrimary and primaryNow() or ""
if fields[5] and fields[5] ~= "" and primary ~= "" and fields[5] ~= primary then
  suspect(metaKey, OTHER_PRIMARY)
  fields[3] = call("HGET", metaKey, "state")
end
if raises then
  call("HSET", metaKey, "fence", fence, "lanes", laneCount, "state", fields[3] or "INIT", "term", term)
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
