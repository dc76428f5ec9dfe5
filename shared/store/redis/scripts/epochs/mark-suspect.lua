-- markSuspect: closes the gate until a list that begins after this is applied.
-- KEYS  meta: of the resource
-- ARGV  reason
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
evenIfFull()
suspect(metaKey, reason)
return { "ok" }
