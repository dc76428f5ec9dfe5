-- markSuspect: the gate shuts until a generation that is opened after this has been listed.
-- KEYS  1 ep · 2 m of the resource
-- ARGV  1 now ms · 2 epoch · 3 reason
-- Returns { "otherEpoch", current epoch or "" } · { "ok" }
if otherEpoch() then return { "otherEpoch", current or "" } end
evenIfFull()
suspect(KEYS[2], ARGV[3])
return { "ok" }
