-- readIndex: namespace counts, then version rows and primaries, which reference the slices of the objects (second half: readEntries).
-- KEYS  none
-- ARGV  resources: with the caller's assumed number of lanes · counts: slot of the counts (n), namespace
--       lanes: slot of the version rows (v; tombstones, t, are next), number of rows in it · rows: keys, lane after lane
--       namespaces: slots of a namespace's primaries (k) and of the queue's primaries (u)
-- Returns { "otherEpoch", current epoch or "" } · { "lanes", resource, number, … }
--         { "ok", counts, rows (row or false, in order), namespaces (each: key, "uid 0x1F owner", …),
--           tombstones (position in rows, tombstone, …) }
if otherEpoch() then return { "otherEpoch", current or "" } end
local others = { "lanes" }
for at = resourcesAt, resourcesEnd, RESOURCES_SIZE do
  local lanes = call("HGET", KEYS[tonumber(ARGV[at + RESOURCES_META_SLOT])], "lanes")
  if lanes and lanes ~= ARGV[at + RESOURCES_LANES] then
    others[#others + 1] = ARGV[at + RESOURCES_NAME]
    others[#others + 1] = tonumber(lanes)
  end
end
if #others > 1 then return others end
local counts, rows, namespaces, tombstones = {}, {}, {}, {}
for at = countsAt, countsEnd, COUNTS_SIZE do
  counts[#counts + 1] = tonumber(call("HGET", KEYS[tonumber(ARGV[at + COUNTS_SLOT])], ARGV[at + COUNTS_NAMESPACE]) or 0)
end
local first = rowsAt
for lane = lanesAt, lanesEnd, LANES_SIZE do
  local base, last = tonumber(ARGV[lane + LANES_ROWS_BASE]), first + tonumber(ARGV[lane + LANES_ROWS]) - 1
  for at = first, last, MAX_ARGS do
    local part = call("HMGET", KEYS[base], unpack(ARGV, at, math.min(at + MAX_ARGS - 1, last)))
    for i = 1, #part do rows[#rows + 1] = part[i] end
  end
  if first <= last and call("HLEN", KEYS[base + 1]) > 0 then
    for at = first, last do
      local tombstone = call("HGET", KEYS[base + 1], ARGV[at])
      if tombstone then
        tombstones[#tombstones + 1] = at - rowsAt
        tombstones[#tombstones + 1] = tombstone
      end
    end
  end
  first = last + 1
end
for at = namespacesAt, namespacesEnd, NAMESPACES_SIZE do
  local keys, out = call("SMEMBERS", KEYS[tonumber(ARGV[at + NAMESPACES_PRIMARIES_SLOT])]), {}
  local primaries = #keys > 0 and hmget(KEYS[tonumber(ARGV[at + NAMESPACES_OWNERS_SLOT])], keys) or {}
  for i = 1, #keys do
    out[2 * i - 1] = keys[i]
    out[2 * i] = primaries[i] or ""
  end
  namespaces[#namespaces + 1] = out
end
return { "ok", counts, rows, namespaces, tombstones }
