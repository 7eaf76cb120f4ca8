-- uncharter: take the charter away, where it still stands as it was read.
--
-- KEYS  the charter
-- ARGV  what was read there, or nothing where nothing stood
-- Returns 1 when nothing stands any more, 0 when something else does, which is left as it is.
--
-- Atomic, because somebody may raise it between the look and the write. Only an operator's command sends it.

local stands = redis.call('get', KEYS[1]) or ''
if stands ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
return 1
