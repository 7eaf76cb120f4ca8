-- label: store a client's label, which shows people the holder of a lock. Nothing else depends on the label.
--
-- KEYS  the client's key (labels.lua)
-- ARGV  the label, and the ms for which it is stored; nothing to delete it
-- Returns 1.
--
-- The key expires some time after its client has ended. The client sends its label again and again.

local call = redis.call
if ARGV[1] then
  call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
else
  call('del', KEYS[1])
end
return 1
