-- introduce: store this master's set, the run of its server, and since when its memory counts.
--
-- KEYS  the record
-- ARGV  number of masters that the client lists; the server's run, which is its process and, after a promotion, a - and the
--       id of the data that it took over, or a lone - if the server hides it; 1 to have the memory
--       count from now in any case, or 0; and for masters that are thrown away: the longest lease in ms
-- Returns {record, clock}: the record as it is now, and the master's wall clock in microseconds. A record of another
-- set stays as it is.
--
-- The record consists of words with a space between them:
-- - the number of masters,
-- - the run,
-- - since when the memory counts, in microseconds of this master's clock,
-- - the longest lease in ms, if there is one.
--
-- Atomic, because another client may store a record between the look and the write. The memory counts from the clock
-- of this moment: the master may have forgotten also the grants since the client looked.

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
