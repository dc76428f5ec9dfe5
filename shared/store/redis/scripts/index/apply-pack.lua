-- applyPack: applies items of one lane in one step (A1–A13). lib/index.lua computes the outcomes (applyItems) and writes rows, slices and
-- tombstones (flush); lib/queue.lua, lib/intents.lua and lib/sequence.lua write the rest.
-- KEYS  lane · tally · meta: of the resource
-- ARGV  fence · projection: of the caller's build · kind: D|L|W · sequence
--       mark: "" if this is not the message's last call, "-" if it is but has no watermark, else the watermark · listRV: or ""
--       historyLostReason: reason of the SUSPECT marks if IX9 detects a lost history · place: in the tally
--       leavesOut: 1: skips items for which a full store has no room (FU2), 0: rejects the call, unless its lane is frozen
--       part: text to store with the lane while items of the message remain, or "" · after: the preceding call's `part` or "" (A15)
--       CHANGES (lib/index.lua) · metas: for listed objects: slots of m of all resources
-- Returns OOM · { "noEpoch" } { "epoch" } { "otherProjection" } { "notOpen" } { "fence" } · { "setBack" } · { "duplicate", doorbells }
--         { "applied", doorbells, outcomes }
--         { "retry", doorbells, outcomes, items done } · and if the next one is unread, the stored values of it and of all later ones:
--           { row, tombstone, entry, … }, "" for none
local came = itemsCount
local full = storeFull()
local refused = otherEpoch()
if refused == "epoch" then tally(tallyKey, place, came, { otherEpoch = came }) end
refused = refused or otherProjection(projection)
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
tally(tallyKey, place, (moved or came) - left, fatesOf(outcomes)) -- items that will be redelivered are counted then
if moved then
  local unread = itemMetas[moved + 1].unread
  return { "retry", bellReplies(), outcomes, moved, unread and standing(moved + 1) or nil }
end
return { "applied", bellReplies(), outcomes }
