-- introduce: store which set this master is in, on which run of its server, and since when its memory counts.
--
-- KEYS  the record
-- ARGV  number of masters that the client lists; which run of the server this is, or - where it hides that; 1 to have the
--       memory count from now whatever stands here, or 0; and for masters that are thrown away: the longest lease in ms
-- Returns {record, clock}: what stands now, and the master's wall clock in microseconds. A record of another set is left as
-- it is.
--
-- The record is the number of masters, the run, since when the memory counts, in microseconds of this master's clock, and
-- where it has one the longest lease in ms, with a space between any two.
--
-- Atomic, because another client may store a record between the look and the write. By the clock of this moment: what
-- the master has granted since the client looked may be forgotten, too.

local time = redis.call('time')
local clock = time[1] * 1000000 + time[2]

-- pcall: a key of another type is no record.
local found = redis.pcall('get', KEYS[1])
local masters, run, since, longest
if type(found) == 'string' then masters, run, since, longest = string.match(found, '^(%d+) (%S+) (%d+) ?(%d*)$') end

if masters and (masters ~= ARGV[1] or longest ~= (ARGV[4] or '')) then return {found, clock} end
if masters and run == ARGV[2] and tonumber(since) <= clock and ARGV[3] ~= '1' then return {found, clock} end

local record = string.format('%s %s %.0f', ARGV[1], ARGV[2], clock)
if ARGV[4] then record = record .. ' ' .. ARGV[4] end
redis.call('set', KEYS[1], record)
return {record, clock}
