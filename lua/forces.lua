-- forces: the last force of a name, which is remembered for a day. Is put in front of the scripts that take names
-- away, that report a force to its holder, and that show names.
--
-- pcall throughout: nothing else depends on it, so an ACL may deny the key, and the key may have another type.

-- The key of a name's last force, by another key that belongs to the name.
local function force_beside(key)
  return 'multilock_forced' .. string.match(key, ':.*$')
end

-- The last force of a name: {at, by, reason}, with the microseconds of this master's clock and the label of the client.
local function last_force(key_beside)
  local key = force_beside(key_beside)
  local function word(field)
    local value = redis.pcall('hget', key, field)
    return type(value) == 'string' and value or nil
  end
  local at = word('at')
  return at and {at, word('by') or '', word('reason') or ''}
end

-- Remembers a force.
local function remember_force(key_beside, at, by, reason)
  local key = force_beside(key_beside)
  redis.pcall('hset', key, 'at', string.format('%.0f', at), 'by', by, 'reason', reason)
  redis.pcall('pexpire', key, 86400000)
end
