-- retain: keep the names that an owner has given up locked for some ms more, so that no other owner gets in before. The
-- owner's term is over.
--
-- KEYS  for each name: the name, its queue, its deadlines
-- ARGV  owner field, ms
-- Returns
--   1                      every name was the owner's, and stays locked for these ms
--   {names}                this number of the names was the owner's
--
-- From then on the owner's hold count is 0. A late renewal finds the 0 and does not extend the name (see extend.lua).
--
-- Atomic, because a name may expire between the look and the write, and another owner may take it. The script creates
-- no hold. It may be sent again: then the time counts from there. No waiter is called, because no name is free. The
-- first waiter gets the time at which the name becomes free, if that is before it asks by itself.

local owner, ms = ARGV[1], tonumber(ARGV[2])
local names = #KEYS / 3
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local queues, retained = queues(), 0
for n = 1, names do
  local key = KEYS[3 * n - 2]
  -- pcall: a key of another type is not the owner's.
  if redis.pcall('hexists', key, owner) == 1 then
    retained = retained + 1
    redis.call('pexpire', key, ms)
    -- pcall: out of memory, the count stays as it is.
    redis.pcall('hset', key, owner, 0)
    queues.tell_head(key, KEYS[3 * n - 1], KEYS[3 * n], now, ms)
  end
end
if retained > 0 then
  for n = 1, names do publish(owner, KEYS[3 * n], 'released') end
end
if retained == names then return 1 end
return {retained}
