-- Counts the fates of items (informer §16). `key` is `tally`, which is outside epochs; `place` is "<resource>:<lane>:".
local function tally(key, place, items, fates)
  if items == 0 then return end
  call("HINCRBY", key, place .. "received", items)
  for fate, n in pairs(fates) do
    if n > 0 then call("HINCRBY", key, place .. fate, n) end
  end
end

-- One letter per item, as applyItems returns them.
local function fatesOf(outcomes)
  local _, applied = string.gsub(outcomes, "c", "")
  local _, superseded = string.gsub(outcomes, "[sla]", "")
  return { applied = applied, superseded = superseded }
end
