-- release: give up every name that this owner holds here, and tell the waiters.
--
-- KEYS  name 1, name 2, ...
-- ARGV  owner field, notify (1 or 0), channel 1, channel 2, ...
-- Returns {names that were held and are free now, most listeners that a notice reached}
--
-- Atomic, because between the look and the delete the name may have passed to somebody else. It only
-- deletes, so it works on a master that is out of memory, and may be sent any number of times.

local owner, notify = ARGV[1], ARGV[2]
local released, listeners = 0, 0
for i, key in ipairs(KEYS) do
  if redis.pcall('hexists', key, owner) == 1 then
    redis.call('del', key)
    released = released + 1
    if notify == '1' then
      -- pcall: an ACL may deny the channel; waiters then wake by their timers.
      local reached = redis.pcall('publish', ARGV[2 + i], '0')
      if type(reached) == 'number' then listeners = math.max(listeners, reached) end
    end
  end
end
return {released, listeners}
