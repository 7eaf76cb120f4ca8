-- acquire: take every name for one owner, all or nothing on this master.
--
-- KEYS  name 1, revocation mark 1, name 2, revocation mark 2, ...
-- ARGV  owner field, hold count, lease in ms
-- Returns
--   1                        granted: the owner's field stands under every name
--   {0, ms left, holder}     refused; nothing was written (ms left is -1 for a key without a TTL)
--   -1                       revoked: this owner was forced out; nothing was written
--
-- Atomic, because the look and the write must not be parted, and a lock on several names must never
-- stand half-taken. Sent again it answers 1 again and counts nothing twice: the count is absolute.

local owner, count, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- The common case in one call: nobody holds any name and nobody was forced out of one.
if redis.call('exists', unpack(KEYS)) == 0 then
  for i = 1, #KEYS, 2 do
    -- The field first: under OOM the script stops here, before anything is written.
    redis.call('hset', KEYS[i], owner, count)
    redis.call('pexpire', KEYS[i], lease)
  end
  return 1
end

for i = 2, #KEYS, 2 do
  if redis.call('sismember', KEYS[i], owner) == 1 then return -1 end
end

-- Who holds a key that is not ours: a hash field, or, for another library's key, what tells its
-- holders apart without giving their secret away.
local function holder(key)
  local kind = redis.call('type', key)['ok']
  if kind == 'string' then return 'string:' .. redis.sha1hex(redis.call('get', key)) end
  if kind ~= 'hash' or redis.call('hlen', key) > 64 then return kind end
  for _, field in ipairs(redis.call('hkeys', key)) do
    if field ~= 'mode' then return field end
  end
  return kind
end

local refused_for, refused_by = nil, nil
for i = 1, #KEYS, 2 do
  local left = redis.call('pttl', KEYS[i])
  -- pcall: a key of another type is an answer here, not an error.
  if left ~= -2 and redis.pcall('hexists', KEYS[i], owner) ~= 1 then
    -- The names come free together when the last of them does.
    if refused_for == nil or (refused_for ~= -1 and (left == -1 or left > refused_for)) then
      refused_for, refused_by = left, holder(KEYS[i])
    end
  end
end
if refused_for ~= nil then return {0, refused_for, refused_by} end

for i = 1, #KEYS, 2 do
  local left = redis.call('pttl', KEYS[i])
  if left == -2 then
    redis.call('hset', KEYS[i], owner, count)
    redis.call('pexpire', KEYS[i], lease)
  else
    -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
    redis.call('pexpire', KEYS[i], math.max(left, lease))
    redis.call('hset', KEYS[i], owner, count)
  end
end
return 1
