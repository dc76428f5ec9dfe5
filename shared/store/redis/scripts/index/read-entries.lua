-- readEntries: entries of slices by key; the second step of readIndex (read-index.ts).
-- KEYS  slices
-- ARGV  sizes: number of entries in each slice · entries: their keys, slice after slice
-- Returns { "otherEpoch", current epoch or "" } · { "ok", entry or false, … in order }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out, first = { "ok" }, entriesAt
for i = 0, sizesCount - 1 do
  local last = first + tonumber(ARGV[sizesAt + i]) - 1
  for at = first, last, MAX_ARGS do
    local part = call("HMGET", KEYS[slicesFrom + i], unpack(ARGV, at, math.min(at + MAX_ARGS - 1, last)))
    for j = 1, #part do out[#out + 1] = part[j] end
  end
  first = last + 1
end
return out
