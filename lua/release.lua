-- release: give up every name that this owner holds here, and tell the waiters.
--
-- KEYS  name 1, name 2, ...
-- ARGV  owner field, notify (1 or 0), channel 1, channel 2, ...
-- Returns the number of names that were held and are free now.
--
-- Atomic, because between the look and the delete the name may have passed to somebody else. It only
-- deletes, so it works on a master that is out of memory, and may be sent any number of times.

local owner, notify = ARGV[1], ARGV[2]
local released = 0
for i, key in ipairs(KEYS) do
  if redis.pcall('hexists', key, owner) == 1 then
    redis.call('del', key)
    released = released + 1
    -- pcall: an ACL may deny the channel; waiters then wake by their timers.
    if notify == '1' then redis.pcall('publish', ARGV[2 + i], '0') end
  end
end
return released
