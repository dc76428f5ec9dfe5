-- gate: whether keys of a controller are handed out, and if not why.
-- KEYS  1 ep · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3… gate (lib/gate.lua), the resources that the controller reads
-- Returns { "otherEpoch", current epoch or "" } · { "lanes", resource, number } · { "open" } · { "stopped", text of the stop } · { "closed", reason }
if otherEpoch() then return { "otherEpoch", current or "" } end
readGate(3)
local refused = otherLanes()
if refused then return refused end
if stop then return { "stopped", stop } end
local reason = closed(nil)
return reason and { "closed", reason } or { "open" }
