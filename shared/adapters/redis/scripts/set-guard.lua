-- setGuard: writes both texts of the guard, if they are still what the caller has read.
-- KEYS  1 ep · 2 guard
-- ARGV  1 now ms · 2 "" · 3 stop as read · 4 resumed as read · 5 stop to be · 6 resumed to be; "" for none
-- Returns { "ok" } · { "changed", stop or "", resumed or "" }
local fields = call("HMGET", KEYS[2], "stop", "resumed")
if (fields[1] or "") ~= ARGV[3] or (fields[2] or "") ~= ARGV[4] then return { "changed", fields[1] or "", fields[2] or "" } end
for i, name in ipairs({ "stop", "resumed" }) do
  if ARGV[4 + i] == "" then call("HDEL", KEYS[2], name) else call("HSET", KEYS[2], name, ARGV[4 + i]) end
end
return { "ok" }
