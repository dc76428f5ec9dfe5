-- openFence: makes a fence the stream of a resource (informer §14 step 3): a greater one resets sequences and holes and keeps W.
-- KEYS  1 ep · 2 m of the resource · for each lane from 3: l, v, t, h, mp
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 number of lanes · 5 1: what another primary had may be missing (SL2); 0: primaries lose nothing
--       6 resource
-- Returns { "noEpoch" } · { "damaged", why } (SL3) · { "fenced", stored fence } · { "lanes", number } when the epoch was made with another number
--         { "open", state, syncedGen, last, W, gen, frozen 0|1, … for each lane }
if otherEpoch() then return { "noEpoch" } end
evenIfFull()
local fields = call("HMGET", KEYS[2], "fence", "lanes", "state", "syncedGen", "primary")
local fence, lanesStored = fields[1], fields[2]
if fence and less(ARGV[3], fence) then return { "fenced", fence } end
if lanesStored and lanesStored ~= ARGV[4] then return { "lanes", tonumber(lanesStored) } end
local n = tonumber(ARGV[4])
-- `ep` knows what was opened in this epoch, so that a leader that comes after a loss sees it.
if not fence and call("HGET", KEYS[1], "opened:" .. ARGV[6]) then return { "damaged", ARGV[6] .. " is not there" } end
if fence then
  for i = 0, n - 1 do
    if call("HEXISTS", KEYS[3 + 5 * i], "fence") == 0 then return { "damaged", ARGV[6] .. ": lane " .. i .. " is not there" } end
  end
end
local primary = ARGV[5] == "1" and primaryNow() or ""
if fields[5] and fields[5] ~= "" and primary ~= "" and fields[5] ~= primary then
  suspect(KEYS[2], OTHER_PRIMARY)
  fields[3] = call("HGET", KEYS[2], "state")
end
if not fence or less(fence, ARGV[3]) then
  call("HSET", KEYS[2], "fence", ARGV[3], "lanes", ARGV[4], "state", fields[3] or "INIT")
  for i = 0, n - 1 do
    local base = 3 + 5 * i
    call("HSET", KEYS[base], "fence", ARGV[3], "last", "0", "holeSince", "")
    call("DEL", KEYS[base + H], KEYS[base + MP])
  end
end
call("HSET", KEYS[2], "primary", primary)
call("HSET", KEYS[1], "opened:" .. ARGV[6], "1")
local out = { "open", fields[3] or "INIT", tonumber(fields[4] or 0) }
for i = 0, n - 1 do
  local state = call("HMGET", KEYS[3 + 5 * i], "last", "W", "gen", "frozen")
  out[#out + 1] = tonumber(state[1] or 0)
  out[#out + 1] = state[2] or "0"
  out[#out + 1] = tonumber(state[3] or 0)
  out[#out + 1] = tonumber(state[4] or 0)
end
return out
