-- gate: whether keys of a controller are handed out, or the reason why not.
-- KEYS  none
-- ARGV  GATE (lib/gate.lua): the resources that the controller reads
-- Returns { "otherEpoch", current epoch or "" } · { "lanes", resource, number } · { "open" } · { "stopped", field and text of the stop } · { "closed", reason }
if otherEpoch() then return { "otherEpoch", current or "" } end
local refused = otherLanes()
if refused then return refused end
if stop then return { "stopped", stopOf(KEYS[stopSlot]) } end
local reason = closed(nil)
return reason and { "closed", reason } or { "open" }
