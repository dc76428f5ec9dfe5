-- setStop: writes texts, if none of them has changed since the caller read it. The epoch is not compared.
-- An empty stored text differs from none: another client has written it.
-- KEYS  stop
-- ARGV  texts: field, old, new; each "=<text>", or "" for none
-- Returns { "ok" } · { "changed", { field, text, … } }
for at = textsAt, textsEnd, TEXTS_SIZE do
  local stored = call("HGET", stopKey, ARGV[at + TEXTS_FIELD])
  if (stored and "=" .. stored or "") ~= ARGV[at + TEXTS_OLD] then return { "changed", call("HGETALL", stopKey) } end
end
evenIfFull()
for at = textsAt, textsEnd, TEXTS_SIZE do
  local field, new = ARGV[at + TEXTS_FIELD], ARGV[at + TEXTS_NEW]
  if new == "" then call("HDEL", stopKey, field) else call("HSET", stopKey, field, string.sub(new, 2)) end
end
return { "ok" }
