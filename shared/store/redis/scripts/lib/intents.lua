-- Intents of an owner (informer §13): hash i:<ownerUid>
--   <op id> -> state "p" (pending) or "l" (planned), token, controller, key, verb, name, uid, deadline, mayLandUntil
--   t:<token> -> number of its pending ops, their common deadline. registerIntents and every write-through renew the deadline of all
--   pending ops of a token in this one field: an op's deadline is the later of its own and its token's. The sum of the numbers is the count
--   of pending ops.

--   t:mark -> what allows the owner's creates and deletes to be based on the cache (../../decision-mark.ts); not parsed here
--   t:left -> the number of its pods that became inactive since the snapshot for its last status write; only with a mark
--   t:drawn -> the number of names that were drawn for its pods (IT5)
local MARK, LEFT, DRAWN = "t:mark", "t:left", "t:drawn"

local function parseOp(value)
  local state, token, controller, key, verb, name, uid, deadline, mayLand = string.match(value,
    "^(%a)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31(%d*)\31(%d*)$")
  return {
    state = state, token = token, controller = controller, key = key, verb = verb, name = name, uid = uid,
    deadline = tonumber(deadline), mayLand = mayLand,
  }
end

local function opValue(op)
  return table.concat({ op.state, op.token, op.controller, op.key, op.verb, op.name, op.uid, text(op.deadline), op.mayLand }, US)
end

local function parsePending(value)
  local count, deadline = string.match(value, "^(%d+)\31(%d+)$")
  return tonumber(count), tonumber(deadline)
end

-- count and deadline of a token's pending ops; 0, 0 without any.
local function pendingOf(key, token)
  local value = call("HGET", key, "t:" .. token)
  if not value then return 0, 0 end
  return parsePending(value)
end

local function setPending(key, token, count, deadline)
  if count > 0 then
    call("HSET", key, "t:" .. token, text(count) .. US .. text(deadline))
  else
    call("HDEL", key, "t:" .. token)
  end
end

-- IT2: removes an op, and subtracts a pending one from its token's number.
local function lowerOp(key, id, op)
  call("HDEL", key, id)
  if op.state == "p" then
    local count, deadline = pendingOf(key, op.token)
    setPending(key, op.token, count - 1, deadline)
  end
end
