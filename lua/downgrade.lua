-- downgrade: an owner that has written some names reads them from now on.
--
-- KEYS  for each name: the name, its queue, its deadlines, its readers
-- ARGV  owner field, lease in ms
-- Returns
--   1                      the owner reads every name
--   {names}                the owner reads this number of the names
--
-- The owner gives up a writer's rights before it sends this. So nothing is lost if the call does not arrive: on that
-- master the names stay closed to readers until the owner's next renewal. The call creates no hold, and may be sent
-- again. It calls the waiters that want to read. Atomic, because another owner may take a name between the look and
-- the write.

local owner, lease = ARGV[1], tonumber(ARGV[2])
local names, downgraded = #KEYS / 4, 0
local reading = readers()
for n = 1, names do
  local name, queue, deadlines, its_readers = unpack(KEYS, 4 * n - 3, 4 * n)
  -- pcall: a key of another type is not the owner's.
  if redis.pcall('hexists', name, owner) == 1 then
    downgraded = downgraded + 1
    reading.turn(name, its_readers, owner, lease)
    if redis.call('exists', deadlines) == 1 then
      local time = redis.call('time')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      queues().call_head(name, queue, deadlines, now, '', nil, true)
    end
  elseif reading.read_until(name) and type(redis.pcall('zscore', its_readers, owner)) == 'string' then
    downgraded = downgraded + 1
  end
end
if downgraded == names then return 1 end
return {downgraded}
