-- lineage: the current epoch with its leader, and how many epochs were opened recently (LN5).
-- KEYS  opened
-- ARGV  none
-- Returns { recent epochs } · { recent epochs, term or "", count, fence and number of the checkpoint or "", field of ep, value, … }
local recent = recentEpochs(call("GET", openedKey) or "")
if not current then return { recent } end
local of = lineageNow()
return { recent, of.term or "", of.count, of.fence, of.number, unpack(call("HGETALL", epochKey)) }
