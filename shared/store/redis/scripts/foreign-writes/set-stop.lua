-- setStop: writes both texts, if they are still what the caller has read. The epoch is not compared.
-- An empty stored text counts as a text: another writer set it.
-- KEYS  stop
-- ARGV  oldStop · oldResumed · newStop · newResumed: each "=<text>", or "" for none
-- Returns { "ok" } · { "changed", stop or nil, resumed or nil }
local fields = call("HMGET", stopKey, "stop", "resumed")
local function isStored(stored, old) return (stored and "=" .. stored or "") == old end
if not (isStored(fields[1], oldStop) and isStored(fields[2], oldResumed)) then return { "changed", fields[1], fields[2] } end
evenIfFull()
for name, new in pairs({ stop = newStop, resumed = newResumed }) do
  if new == "" then call("HDEL", stopKey, name) else call("HSET", stopKey, name, string.sub(new, 2)) end
end
return { "ok" }
