-- The guard's stops (informer §11.9, ../../stop-store.ts). Any stored text is a stop (GD6), except a text in `stop` with the number of
-- namespaces.

-- The field that stops `key`, and its text, or nil. Without a key: those that stop everything.
local function stopOf(hash, key)
  local field = "stop:" .. (string.match(key or "", "^([^/]*)/") or "")
  local texts = call("HMGET", hash, "stop", field)
  if texts[1] and not string.find(texts[1], '"namespaces":%d+}}$') then return "stop", texts[1] end
  if key and texts[2] then return field, texts[2] end
  return nil
end
