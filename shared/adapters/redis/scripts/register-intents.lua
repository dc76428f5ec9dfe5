-- registerIntents: ops become pending, deadline now + OP_DEADLINE_MS, as do the token's other pending ops (IT1).
-- KEYS  1 ep · 2… q p f u b z of the controller · 8 i of the owner
-- ARGV  1 now ms · 2 epoch · 3 key · 4 token · 5 owner uid · 6 controller · 7 number of ops, each: id, verb, name, uid, mayLandUntil ms or ""
-- Returns 1, or 0 (stolen): another epoch, not the holder, or the key's primary is not of this uid
if otherEpoch() then return 0 end
local key, token = ARGV[3], ARGV[4]
if holder(2, key) ~= token or not uidIs(call("HGET", KEYS[2 + U], key), ARGV[5]) then return 0 end
local intents, n = KEYS[8], tonumber(ARGV[7])
local deadline = now + OP_DEADLINE_MS
if n > 0 then
  local ids = {}
  for i = 1, n do ids[i] = ARGV[8 + 5 * (i - 1)] end
  for i, value in ipairs(hmget(intents, ids)) do
    if value then lowerOp(intents, ids[i], parseOp(value)) end -- a planned name is used, or an op is named again
  end
  local fields = {}
  for i = 1, n do
    local at = 8 + 5 * (i - 1)
    fields[#fields + 1] = ids[i]
    fields[#fields + 1] = opValue({
      state = "p", token = token, controller = ARGV[6], key = key, verb = ARGV[at + 1], name = ARGV[at + 2], uid = ARGV[at + 3],
      deadline = deadline, mayLand = ARGV[at + 4],
    })
  end
  bulk("HSET", intents, fields)
end
local count = pendingOf(intents, token)
setPending(intents, token, count + n, deadline)
return 1
