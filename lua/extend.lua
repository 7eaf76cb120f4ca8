-- extend: raise the time to live of every name that this owner holds. Creates nothing.
--
-- KEYS  name 1, revocation mark 1, name 2, revocation mark 2, ...
-- ARGV  owner field, hold count, lease in ms
-- Returns
--   1                        continued: every name was held, none has less than the lease left
--   2                        absent: a name is free here; nothing was written
--   {0, ms left, holder}     another holds a name; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written
--
-- Atomic, because a name may expire between the look and the write. It never creates a key: one that
-- arrives after the unlock must not leave an orphan.

local owner, count, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

local absent = false
for i = 1, #KEYS, 2 do
  if redis.pcall('hexists', KEYS[i], owner) ~= 1 then
    if redis.call('sismember', KEYS[i + 1], owner) == 1 then return -1 end
    local left = redis.call('pttl', KEYS[i])
    if left ~= -2 then return {0, left, redis.call('type', KEYS[i])['ok']} end
    absent = true
  end
end
if absent then return 2 end

for i = 1, #KEYS, 2 do
  -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
  if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
  redis.call('hset', KEYS[i], owner, count)
end
return 1
