-- applyPack: one step of one lane (A1–A13): rows, slices, counts, intents, queue and, with the last call, the sequence.
-- KEYS  lane · tally · meta: of the resource
-- ARGV  fence · kind: D|L|W · sequence
--       mark: "" if it is not the last call, "-" without watermark, else the watermark · listRV: or ""
--       historyLostReason: why all resources are suspect if their history is lost · place: in the tally
--       leavesOut: 1: skips items for which a full store has no room (FU2), 0: refuses the call, unless its lane is frozen
--       part: kept in the lane while the message is unfinished, or "" · after: what the message's preceding call left there, or "" (A15)
--       CHANGES (lib/index.lua) · metas: with a list: slots of m of all resources
-- Returns OOM · { "noEpoch" } { "epoch" } { "notOpen" } { "fence" } · { "setBack" } · { "duplicate", doorbells }
--         { "applied", doorbells, outcomes }
--         { "retry", doorbells, outcomes, items done } · and if the next one is unread, the stored values of it and of all later ones:
--           { row, tombstone, entry, … }, "" for none
local came = itemsCount
local full = storeFull()
local refused = otherEpoch()
if refused == "epoch" then tally(tallyKey, place, came, { otherEpoch = came }) end
if refused then return { refused } end
local state = openLane(laneBase)
refused = otherFence(state, fence)
if refused == "fence" then tally(tallyKey, place, came, { fenced = came }) end
if refused then return { refused } end
readChanges()
if isDuplicate(state, sequence) then
  stillDirty()
  tally(tallyKey, place, came, { duplicate = came })
  return { "duplicate", bellReplies() }
end
-- A client that reconnects may send a call twice.
if after ~= "" and after ~= state.part and (part == "" or part ~= state.part) then return { "setBack" } end
if full and not leavesOut and not state.frozen and hasPuts() then return full end
local outcomes, moved = "", nil
if came > 0 then
  if countsMoved() then return { "retry", {}, "", 0 } end
  outcomes, moved = applyItems(kind == "L", listRV, false, nil, full)
end
if historyLost then
  for at = metasAt, metasEnd do suspect(KEYS[tonumber(ARGV[at + METAS_SLOT])], historyLostReason) end
end
local _, left = string.gsub(outcomes, "f", "")
if left > 0 then leftOut(state, metaKey) end
if not moved and mark ~= "" then commit(state, sequence, (mark == "-" or left > 0) and "" or mark) end
if part ~= "" and (moved and moved > 0 or not moved and mark == "") then call("HSET", KEYS[laneBase], "part", part) end
flush()
tally(tallyKey, place, (moved or came) - left, fatesOf(outcomes)) -- items that are redelivered are not counted yet
if moved then
  local unread = itemMetas[moved + 1].unread
  return { "retry", bellReplies(), outcomes, moved, unread and standing(moved + 1) or nil }
end
return { "applied", bellReplies(), outcomes }
