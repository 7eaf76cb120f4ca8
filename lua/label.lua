-- label: store a client's label, which shows people the holder of a lock. Nothing else depends on the label.
--
-- KEYS  the client's key (labels.lua)
-- ARGV  the label, and the ms for which it is stored; nothing to delete it
-- Returns 1, or the server's error if it denies PUBLISH, by which scripts call waiters.
--
-- The key expires some time after its client has ended. The client sends its label again and again. So it notices a denial
-- that begins while it is connected. The scripts that call waiters go on without PUBLISH, and report nothing.

if not ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
-- pcall: the label may be denied alone.
redis.pcall('set', KEYS[1], ARGV[1], 'px', ARGV[2])
-- Nobody listens to this channel.
local sent = redis.pcall('publish', 'multilock:probe', '')
return type(sent) == 'table' and sent['err'] or 1
