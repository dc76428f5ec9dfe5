-- readIndex, second half: entries of named slices.
-- KEYS  1 ep · 2… slices
-- ARGV  1 now ms · 2 epoch · 3… for each slice: number of keys, keys
-- Returns { "otherEpoch", current epoch or "" } · { "ok", entry or false, … in order }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out, at = { "ok" }, 3
for slot = 2, #KEYS do
  local n = tonumber(ARGV[at])
  for first = 0, n - 1, MAX_ARGS do
    local last = math.min(first + MAX_ARGS, n)
    local part = call("HMGET", KEYS[slot], unpack(ARGV, at + 1 + first, at + last))
    for i = 1, #part do out[#out + 1] = part[i] end
  end
  at = at + 1 + n
end
return out
