-- uncharter: take the charter away, where it still stands as it was read.
--
-- KEYS  the charter
-- ARGV  what was read there, or nothing where nothing stood; microseconds of this master's clock after which nothing is
--       done any more
-- Returns 1 when nothing stands any more, 0 when something else does, which is left as it is, -1 when it came too late.
--
-- Atomic, because somebody may raise it between the look and the write. What was stuck on its way must not take away what
-- was put back meanwhile. Only an operator's command sends it.

local time = redis.call('time')
if time[1] * 1000000 + time[2] > tonumber(ARGV[2]) then return -1 end
if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
return 1
