-- replace: replaces texts of hashes, each only if neither it nor its row has changed since it was read.
-- KEYS  meta: of the resource
-- ARGV  resource · laneCount: the caller's assumed number · texts: slot of the hash, field, old text, new text ("" removes the field), slot of v (0: no row is compared), row ("": none)
-- Returns { "otherEpoch", current epoch or "" } · { "lanes", resource, number } · { "ok", 1 or 0 for each in order }
if otherEpoch() then return { "otherEpoch", current or "" } end
local laneCountNow = call("HGET", metaKey, "lanes")
if laneCountNow and laneCountNow ~= laneCount then return { "lanes", resource, tonumber(laneCountNow) } end
local out = { "ok" }
for at = textsAt, textsEnd, TEXTS_SIZE do
  local key, field, new = KEYS[tonumber(ARGV[at + TEXTS_HASH_SLOT])], ARGV[at + TEXTS_FIELD], ARGV[at + TEXTS_NEW]
  local rows = KEYS[tonumber(ARGV[at + TEXTS_ROWS_SLOT])] -- nil for slot 0
  local isSame = call("HGET", key, field) == ARGV[at + TEXTS_OLD] and (not rows or (call("HGET", rows, field) or "") == ARGV[at + TEXTS_ROW])
  if isSame and new == "" then
    call("HDEL", key, field)
  elseif isSame then
    call("HSET", key, field, new)
  end
  out[#out + 1] = isSame and 1 or 0
end
return out
