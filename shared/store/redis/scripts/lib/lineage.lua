-- Cluster lineage (shared/store/ports/lineage.ts).

-- Term, count and fence of the leader, its checkpoint as { fence, number }, and the number of SUSPECT marks. The term is nil once an older
-- build without terms has checkpointed under a greater fence.
local function lineageNow()
  local fields = call("HMGET", epochKey, "term", "termCount", "termFence", "checkpoint", "marks")
  local fence, number = string.match(fields[4] or "", "^(%d+)\31(%d+)$")
  local term = fields[1] or nil
  if term and fence and less(fields[3], fence) then term = nil end
  return { term = term, count = term and fields[2] or "", termFence = fields[3] or "", fence = fence or "", number = number or "", marks = fields[5] or "0" }
end

-- LN5: how many of the times in `opened` are within the window.
local function recentEpochs(opened)
  local count = 0
  for at in string.gmatch(opened or "", "%d+") do
    local age = now - tonumber(at)
    if age >= 0 and age < EPOCHS_WINDOW_MS then count = count + 1 end
  end
  return count
end
