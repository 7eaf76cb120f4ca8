-- downgrade: from now on an owner that has written some names reads them.
--
-- KEYS  for each name: the name, its queue, its beats, its readers, the owner's time-out
-- ARGV  owner field, lease in ms, a channel for each name
-- Returns
--   1                      every name is the owner's, to read
--   {names}                so many of the names are
--
-- The owner has let go of what only a writer may do before this was sent, so nothing is lost where it does not arrive:
-- there the names stay shut to readers until the owner's next renewal. It creates no hold, and may be sent again.
-- Those who wait to read are called. Atomic, because between the look and the write a name may pass to somebody else.

local owner, lease = ARGV[1], tonumber(ARGV[2])
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local names, downgraded = #KEYS / 5, 0
for n = 1, names do
  local name, queue, beats, readers, timeout = unpack(KEYS, 5 * n - 4, 5 * n)
  -- pcall: a key of another type is not the owner's.
  if redis.pcall('hexists', name, owner) == 1 then
    downgraded = downgraded + 1
    if redis.call('hget', name, 'mode') ~= 'read' then
      local left = math.max(redis.call('pttl', name), lease)
      -- The TTL first: after one write OOM cannot stop the script.
      redis.call('pexpire', name, left)
      redis.call('hset', name, 'mode', 'read')
      redis.call('del', readers)
      redis.call('zadd', readers, now + left, owner)
      redis.call('pexpire', readers, left)
      redis.call('set', timeout, 1, 'px', left)
      -- pcall: an ACL may deny the channel.
      redis.pcall('publish', ARGV[2 + n], '1')
      queues().call_head(name, queue, beats, now, '', nil, true)
    end
  end
end
if downgraded == names then return 1 end
return {downgraded}
