-- claimPeriodicJob: claims a run of a periodic job if it is due. The first call only sets the time of the next run.
-- KEYS  jobs
-- ARGV  job · afterMs: until the next run
-- Returns 1 or 0; 0 with another epoch
if otherEpoch() then return 0 end
evenIfFull()
local due = call("HGET", jobsKey, job)
if due and tonumber(due) > now then return 0 end
call("HSET", jobsKey, job, text(now + afterMs))
return due and 1 or 0
