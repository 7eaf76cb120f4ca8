-- list: keys here that belong to locks, about 400 at a time. Writes nothing.
--
-- ARGV  cursor, pattern of the keys, type: hash for names that may be locked, zset for the deadlines of waiters
-- Returns {next cursor, key, ...}. The first cursor is 0, and the last answer has it again. A key may come twice. A hash
-- that is no lock is left out as far as that is seen at a glance.

local found = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', 400, 'type', ARGV[3])
local answer = {found[1]}

-- A lock has one field, its owner. A read/write lock also has its mode.
-- A name that clients of this crate read has the field multilock, too.
-- pcall: a key that is denied to this user is none of its locks.
local function is_lock(key)
  local fields = redis.pcall('hlen', key)
  if fields == 1 then
    local field = redis.call('hkeys', key)[1]
    return field == 'mode' or field == 'multilock' or string.find(field, '^%x[%x-]+:%d+%l*$')
  end
  return type(fields) == 'number' and (redis.call('hexists', key, 'mode') == 1 or redis.call('hexists', key, 'multilock') == 1)
end

for _, key in ipairs(found[2]) do
  if ARGV[3] ~= 'hash' or is_lock(key) then answer[#answer + 1] = key end
end
return answer
