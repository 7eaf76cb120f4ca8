-- label: what a client calls itself, for people who ask who holds. Nothing else is decided by it.
--
-- KEYS  the client's key (labels.lua)
-- ARGV  the label, and ms for which it is kept; nothing to take it back
-- Returns 1.
--
-- The key ends by itself some time after its client, which tells it again and again.

local call = redis.call
if ARGV[1] then
  call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
else
  call('del', KEYS[1])
end
return 1
