-- heartbeat: applies the heartbeat of quiet lanes (HB1-HB4). Field `heartbeat` of ep: fence and time of the last applied one.
-- KEYS  none
-- ARGV  fence · sentMs: of the leader's clock · lanes: slots of l and t, last sequence number, version up to which its messages reach
-- Returns { "noEpoch" } · { "epoch" } · { "fence" } · { "late" } · { "applied", indexes of lanes that lack messages, from 0, … }
local refused = otherEpoch()
if refused then return { refused } end
local ofFence, before = string.match(call("HGET", epochKey, "heartbeat") or "", "^(%d+)\31(%d+)$")
if ofFence == fence and sentMs <= tonumber(before) then return { "late" } end

local out, isOpen = { "applied" }, false
for at = lanesAt, lanesEnd, LANES_SIZE do
  local l, sequence, rv = KEYS[tonumber(ARGV[at + LANES_STATE_SLOT])], tonumber(ARGV[at + LANES_SEQUENCE]), ARGV[at + LANES_RV]
  local fields = call("HMGET", l, "fence", "last", "W", "frozen", "holeSince")
  local last, W = tonumber(fields[2] or 0), fields[3] or "0"
  if fields[1] == fence then
    if not isOpen then
      isOpen = true
      evenIfFull()
      call("HSET", epochKey, "heartbeat", fence .. US .. text(sentMs))
    end
    if sequence > last then -- HB4
      out[#out + 1] = (at - lanesAt) / LANES_SIZE
      if not tonumber(fields[5] or "") then call("HSET", l, "holeSince", text(now)) end
    elseif sequence == last then -- HB3
      if fields[4] == "1" or not less(W, rv) then
        call("HSET", l, "ts", text(now))
      else
        call("HSET", l, "ts", text(now), "W", rv)
        dropTombstones(KEYS[tonumber(ARGV[at + LANES_TOMBSTONES_SLOT])], rv)
      end
    end
  end
end
return isOpen and out or { "fence" }
