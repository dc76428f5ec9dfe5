-- applyPack: one step of one lane (A1–A13): rows, slices, counts, intents, queue and, with the last call, the sequence.
-- KEYS  1 ep · 2 l · 3 v · 4 t · 5 h · 6 mp of the lane · 7 tally · 8 m of the resource · with a list: 9… m of all resources · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3 fence · 4 kind D|L|W · 5 sequence
--       6 commit: "" not the last call, "-" without watermark, else the watermark · 7 version of the list, or ""
--       8 number of all resources · 9 why they are suspect if their history is lost · 10 place in the tally
--       11 1: what a full store has no room for is left out (FU2), 0: then the call is refused, unless its lane is frozen
--       12… changes (lib/index.lua), their number of items first
-- Returns OOM · { "noEpoch" } { "epoch" } { "notOpen" } { "fence" } · { "duplicate", bells }
--         { "applied", bells, outcomes }
--         { "retry", bells, outcomes, items done } · and if the next one is unread, what stands where it and those after it go:
--           { row, tombstone, entry, … }, "" for none
local TALLY, place, came = KEYS[7], ARGV[10], tonumber(ARGV[12])
local full = storeFull()
local refused = otherEpoch()
if refused == "epoch" then tally(TALLY, place, came, { otherEpoch = came }) end
if refused then return { refused } end
local state = openLane(2)
refused = otherFence(state, ARGV[3])
if refused == "fence" then tally(TALLY, place, came, { fenced = came }) end
if refused then return { refused } end
readChanges(12)
local sequence, mark = tonumber(ARGV[5]), ARGV[6]
if isDuplicate(state, sequence) then
  stillDirty()
  tally(TALLY, place, came, { duplicate = came })
  return { "duplicate", bellReplies() }
end
if full and ARGV[11] == "0" and not state.frozen and hasPuts() then return full end
local outcomes, moved = "", nil
if changes.items > 0 then
  if countsMoved() then return { "retry", {}, "", 0 } end
  outcomes, moved = applyItems(ARGV[4] == "L", ARGV[7], false, nil, full)
end
if historyLost then
  for i = 9, 8 + tonumber(ARGV[8]) do suspect(KEYS[i], ARGV[9]) end
end
local _, left = string.gsub(outcomes, "f", "")
if left > 0 then leftOut(state, KEYS[8]) end
if not moved and mark ~= "" then commit(state, sequence, (mark == "-" or left > 0) and "" or mark) end
flush()
tally(TALLY, place, (moved or came) - left, fatesOf(outcomes)) -- what comes again is not at its end
if moved then
  local unread = itemMetas[moved + 1].unread
  return { "retry", bellReplies(), outcomes, moved, unread and standing(moved + 1) or nil }
end
return { "applied", bellReplies(), outcomes }
