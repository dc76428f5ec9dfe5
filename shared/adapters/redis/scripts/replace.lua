-- replace: texts of hashes give way to others, each only if it and its row still stand there as they were read.
-- KEYS  1 ep · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3… for each: slot of the hash, field, text, text in its place ("" takes the field away),
--       slot of v (0: no row is asked for), row ("" = none)
-- Returns { "otherEpoch", current epoch or "" } · { "ok", 1 or 0 for each in order }
if otherEpoch() then return { "otherEpoch", current or "" } end
local out = { "ok" }
for at = 3, #ARGV, 6 do
  local key, field, v = KEYS[tonumber(ARGV[at])], ARGV[at + 1], tonumber(ARGV[at + 4])
  local stands = call("HGET", key, field) == ARGV[at + 2] and (v == 0 or (call("HGET", KEYS[v], field) or "") == ARGV[at + 5])
  if stands and ARGV[at + 3] == "" then
    call("HDEL", key, field)
  elseif stands then
    call("HSET", key, field, ARGV[at + 3])
  end
  out[#out + 1] = stands and 1 or 0
end
return out
