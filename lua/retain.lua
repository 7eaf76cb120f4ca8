-- retain: keep the names that an owner has given up locked for some ms more, so that no other owner gets in before.
--
-- KEYS  for each name: the name, its queue, its deadlines; and if it leaves a token, for each name: its fence
-- ARGV  owner field, the last token of its block (0 to leave none), ms
-- Returns
--   1                      every name was the owner's, and stays locked for these ms
--   {names}                this number of the names was the owner's
--
-- From then on the owner's hold count is 0. A late renewal finds the 0 and does not extend the name (see extend.lua).
--
-- Atomic, because a name may expire between the look and the write, and another owner may take it. The script creates
-- no hold. It may be sent again: then the time counts from there. No waiter is called, because no name is free. The
-- first waiter gets the time at which the name becomes free, if that is before it asks by itself. The fence is as in
-- release.lua.

local owner, top, ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local names = #KEYS / (top == 0 and 3 or 4)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Ten minutes more than the token is ahead of the clock, in ms.
local life = math.ceil((top + 600000000 - (time[1] * 1000000 + time[2])) / 1000)
local queues, retained = queues(), 0
for n = 1, names do
  local key, fence = KEYS[3 * n - 2], KEYS[3 * names + n]
  -- pcall: a key of another type is not the owner's.
  if redis.pcall('hexists', key, owner) == 1 then
    retained = retained + 1
    redis.call('pexpire', key, ms)
    -- pcall: out of memory, the count stays as it is.
    redis.pcall('hset', key, owner, 0)
    if top > 0 and life > 0 then
      local stored = redis.pcall('get', fence)
      local below = not stored or type(stored) == 'string' and (tonumber(stored) or top) < top
      if below then redis.pcall('set', fence, ARGV[2], 'px', life) end
    end
    queues.tell_head(key, KEYS[3 * n - 1], KEYS[3 * n], now, ms)
  end
end
if retained == names then return 1 end
return {retained}
