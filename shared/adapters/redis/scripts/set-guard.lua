-- setGuard: writes both texts of the guard, if they are still what the caller has read. An empty text is one: somebody else's.
-- KEYS  1 ep · 2 guard
-- ARGV  1 now ms · 2 "" · 3 stop as read · 4 resumed as read · 5 stop to be · 6 resumed to be; each "=<text>", or "" for none
-- Returns { "ok" } · { "changed", stop or nil, resumed or nil }
local fields = call("HMGET", KEYS[2], "stop", "resumed")
for i = 1, 2 do
  if (fields[i] and "=" .. fields[i] or "") ~= ARGV[2 + i] then return { "changed", fields[1], fields[2] } end
end
evenIfFull()
for i, name in ipairs({ "stop", "resumed" }) do
  local text = ARGV[4 + i]
  if text == "" then call("HDEL", KEYS[2], name) else call("HSET", KEYS[2], name, string.sub(text, 2)) end
end
return { "ok" }
