-- claimPeriodicJobs: claims a run of each periodic job that is due. The first call for a job only sets the time of its next run.
-- KEYS  jobs
-- ARGV  turns: job, milliseconds until its next run
-- Returns the claimed jobs; none with another epoch
if otherEpoch() then return {} end
local claimed = {}
for at = turnsAt, turnsEnd, TURNS_SIZE do
  local job = ARGV[at + TURNS_JOB]
  local due = call("HGET", jobsKey, job)
  if not due or tonumber(due) <= now then
    evenIfFull()
    call("HSET", jobsKey, job, text(now + tonumber(ARGV[at + TURNS_AFTER_MS])))
    if due then claimed[#claimed + 1] = job end
  end
end
return claimed
