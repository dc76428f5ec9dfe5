-- beat: stores the record of a watcher, grants moves, and returns the records of the others. An empty body deletes the record.
-- ep is a hash that belongs to no cluster: a watcher's id -> joined, last beat, granted moves separated by commas, body.
-- KEYS  none
-- ARGV  id · body · moves: wanted, separated by commas · silentMs · forgetMs · movesMax
-- Returns { time, joined, granted moves, { id, joined, last beat, body }, … }
if body == "" then
  call("HDEL", epochKey, id)
  return {}
end
evenIfFull()
local joined, held, moving, reply = serverNow, {}, 0, {}
local all = call("HGETALL", epochKey)
for i = 1, #all, 2 do
  local joinedAt, at, theirs, rest = string.match(all[i + 1], "^(%d+)\31(%d+)\31([^\31]*)\31(.*)$")
  joinedAt, at = tonumber(joinedAt), tonumber(at)
  local name = all[i]
  -- The server's clock went back: a silent watcher must not stay live until the clock has caught up.
  if at and at > serverNow then
    at, joinedAt = serverNow, math.min(joinedAt, serverNow)
    call("HSET", epochKey, name, text(joinedAt) .. US .. text(at) .. US .. theirs .. US .. rest)
  end
  local isLive = at and serverNow - at < silentMs
  if name == id then
    if isLive then
      joined = joinedAt
      for move in string.gmatch(theirs, "[^,]+") do held[move] = true end
    end
  elseif not at or serverNow - at >= forgetMs then
    call("HDEL", epochKey, name)
  else
    if isLive then
      for _ in string.gmatch(theirs, "[^,]+") do moving = moving + 1 end
    end
    reply[#reply + 1] = { name, text(joinedAt), text(at), rest }
  end
end
-- Moves that are in progress come first, whatever the order of the wanted ones.
local granted = {}
for pass = 1, 2 do
  for move in string.gmatch(moves, "[^,]+") do
    if (pass == 1) == (held[move] == true) and moving + #granted < movesMax then granted[#granted + 1] = move end
  end
end
local names = table.concat(granted, ",")
call("HSET", epochKey, id, text(joined) .. US .. text(serverNow) .. US .. names .. US .. body)
table.insert(reply, 1, names)
table.insert(reply, 1, text(joined))
table.insert(reply, 1, text(serverNow))
return reply
