-- registerIntents: stores ops as pending. They and the token's other pending ops get the deadline now + OP_DEADLINE_MS (IT1).
-- KEYS  queue: of the controller · intents: of the owner
-- ARGV  key · token · ownerUid · controller · term: as `take` returned it (LN4), "": not compared · termFence · marks
--       drawn: names of this owner so far (IT5), "": unchanged · ops
-- Returns 1, or 0: another epoch, another run holds the key, the key's primary has another uid, or LN4
if otherEpoch() then return 0 end
if term ~= "" then
  local fields = call("HMGET", epochKey, "term", "termFence", "marks")
  if fields[1] ~= term or fields[2] ~= termFence or (fields[3] or "0") ~= marks then return 0 end
end
if holder(queueBase, key) ~= token or not uidIs(call("HGET", KEYS[queueBase + U], key), ownerUid) then return 0 end
local deadline = now + OP_DEADLINE_MS
if opsCount > 0 then
  local ids, fields = {}, {}
  for at = opsAt, opsEnd, OPS_SIZE do ids[#ids + 1] = ARGV[at + OPS_ID] end
  for i, value in ipairs(hmget(intentsKey, ids)) do
    if value then lowerOp(intentsKey, ids[i], parseOp(value)) end -- a planned name, or an op that is registered again
  end
  for at = opsAt, opsEnd, OPS_SIZE do
    fields[#fields + 1] = ARGV[at + OPS_ID]
    fields[#fields + 1] = opValue({
      state = "p", token = token, controller = controller, key = key, verb = ARGV[at + OPS_VERB], name = ARGV[at + OPS_NAME],
      uid = ARGV[at + OPS_UID], deadline = deadline, mayLand = ARGV[at + OPS_MAY_LAND_UNTIL_MS],
    })
  end
  bulk("HSET", intentsKey, fields)
end
if drawn ~= "" then call("HSET", intentsKey, DRAWN, drawn) end
setPending(intentsKey, token, pendingOf(intentsKey, token) + opsCount, deadline)
return 1
