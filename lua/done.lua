-- done: for a job that is to be done once, look first whether it is done. Is put in front of acquire.lua, whose own keys
-- and arguments are what is left here.
--
-- KEYS  behind those of acquire.lua: the job's mark (mark.lua)
-- ARGV  behind those of acquire.lua: ms for which the job is not to be begun again
-- Returns
--   {stamp, 4, at, keep, label}   the job is done, as in mark.lua; nothing was written, and no waiter was added to a queue
--
-- A mark counts for the shorter of both times: its own, after which its key has ended, and that of this call.

local job, again_after = table.remove(KEYS), tonumber(table.remove(ARGV))
-- pcall: a key of another type is no mark.
local mark = redis.pcall('get', job)
if type(mark) == 'string' then
  local at, keep, label = string.match(mark, '^(%d+) (%d+) (.*)$')
  local time = redis.call('time')
  if at and time[1] * 1000 + math.floor(time[2] / 1000) < tonumber(at) + again_after then
    -- Without the master's record: a memory that was wiped has no mark.
    return {time[1] * 1000000 + time[2], 4, at, keep, label}
  end
end

