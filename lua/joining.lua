-- joining: the beginning of acquire.lua for a reader of free names, or of one name that others read, without waiters or
-- revocation marks. It is put behind look.lua, and in front of the other parts for the same reason. readers.lua describes a
-- name that is read.
--
-- The end of a lease is given to the commands as text: each of them would turn the number into text again.

local now = math.floor(clock / 1000)
-- The keys of the names, and beside them, that exist; the ms at which the last reader's lease ends, if others read the name;
-- and whether the owner has been added.
local found, ends_last, is_added = existing, nil, false
if shared and (declared or not spoilt) then
  local ends = now + lease
  local ends_text = string.format('%.0f', ends)
  local last_text
  if not found then
    -- For a call without a token a fence is in the way, too.
    found = call('exists', unpack(KEYS, 2, token and last or fences + names))
    -- pcall, here and below: a key of another type is not read, and has no readers.
    last_text = found == 0 and redis.pcall('hget', KEYS[1], 'multilock')
    ends_last = type(last_text) == 'string' and tonumber(last_text)
    if not ends_last then found = found + call('exists', KEYS[1]) end
  end
  if ends_last then
    local its_readers = KEYS[readers_at + 1]
    local is_known = redis.pcall('zrangebyscore', its_readers, last_text, last_text, 'limit', '0', '1')[1]
    is_added = redis.pcall('zadd', its_readers, 'nx', ends_text, owner) == 1
    -- The set has lost a reader, which may read until then.
    if is_added and not is_known then call('zadd', its_readers, last_text, 'lost:0') end
    if is_added and ends > ends_last then
      -- One call in 16 deletes readers with leases that have ended, so that they do not pile up while others read on.
      local over = ends % 16 == 0 and call('zrangebyscore', its_readers, '-inf', now, 'limit', '0', '64') or {}
      if over[1] then call('zrem', its_readers, unpack(over)) end
      call('hset', KEYS[1], 'multilock', ends_text)
      call('pexpireat', KEYS[1], ends_text)
      call('pexpireat', its_readers, ends_text)
    elseif is_added and not is_known then
      call('pexpireat', its_readers, last_text)
    end
  elseif found == 0 then
    -- As `begin` of readers.lua, whose functions cost more than this.
    for n = 1, names do
      local name, its_readers = KEYS[3 * n - 2], KEYS[readers_at + n]
      call('hset', name, 'mode', 'write', 'multilock', ends_text)
      call('pexpireat', name, ends_text)
      call('del', its_readers)
      call('zadd', its_readers, ends_text, owner)
      call('pexpireat', its_readers, ends_text)
    end
    is_added = true
  end
end
if is_added and names == 1 and not about and not declared then
  if not token then return stamp end
  if absent then highest = math.max(highest, token, clock - BEHIND + 1) end
  if highest <= clock + AHEAD and (absent or clock <= highest + OLD) then
    if absent then call('set', KEYS[fences + 1], string.format('%.0f', highest), 'px', LIFE) end
    return {stamp, 3, highest}
  end
end
