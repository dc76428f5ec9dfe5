-- readIndex, first half: namespace counts, then version rows and primaries; they say in which slices the objects stand.
-- KEYS  1 ep · others by slot, named in ARGV
-- ARGV  1 now ms · 2 epoch · 3 numbers of: resources, counts, lanes, namespaces (comma-separated), then
--       resources: name, slot of m, number of lanes as the caller believes · counts: slot of n, namespace
--       lanes: slot of v (t is the next one), number of keys, keys · namespaces: slot of k, slot of u
-- Returns { "otherEpoch", current epoch or "" } · { "lanes", resource, number }
--         { "ok", counts, rows (row or false, in order), namespaces (each: key, "uid 0x1F owner", …),
--           tombstones (position in rows, tombstone, …) }
if otherEpoch() then return { "otherEpoch", current or "" } end
local nResources, nCounts, nLanes, nNamespaces = string.match(ARGV[3], "^(%d+),(%d+),(%d+),(%d+)$")
local at = 4
for _ = 1, nResources do
  local lanes = call("HGET", KEYS[tonumber(ARGV[at + 1])], "lanes")
  if lanes and lanes ~= ARGV[at + 2] then return { "lanes", ARGV[at], tonumber(lanes) } end
  at = at + 3
end
local counts, rows, namespaces, tombstones = {}, {}, {}, {}
for i = 1, nCounts do
  counts[i] = tonumber(call("HGET", KEYS[tonumber(ARGV[at])], ARGV[at + 1]) or 0)
  at = at + 2
end
for _ = 1, nLanes do
  local slot, n = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  for first = 0, n - 1, MAX_ARGS do
    local last = math.min(first + MAX_ARGS, n)
    local part = call("HMGET", KEYS[slot], unpack(ARGV, at + 2 + first, at + 1 + last))
    for i = 1, #part do rows[#rows + 1] = part[i] end
  end
  if n > 0 and call("HLEN", KEYS[slot + 1]) > 0 then
    for i = 0, n - 1 do
      local tombstone = call("HGET", KEYS[slot + 1], ARGV[at + 2 + i])
      if tombstone then
        tombstones[#tombstones + 1] = #rows - n + i
        tombstones[#tombstones + 1] = tombstone
      end
    end
  end
  at = at + 2 + n
end
for i = 1, nNamespaces do
  local keys, out = call("SMEMBERS", KEYS[tonumber(ARGV[at])]), {}
  local primaries = #keys > 0 and hmget(KEYS[tonumber(ARGV[at + 1])], keys) or {}
  for j = 1, #keys do
    out[2 * j - 1] = keys[j]
    out[2 * j] = primaries[j] or ""
  end
  namespaces[i] = out
  at = at + 2
end
return { "ok", counts, rows, namespaces, tombstones }
