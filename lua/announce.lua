-- announce: tell clients of Redisson's that a name is free. Is put in front of every script that frees a name.
--
-- A waiter for a fair lock of Redisson's listens to no other channel than one of its own: that of the name, a colon,
-- and its field. Such waiters are in a list beside the name. Only the first one may take the lock. A waiter that has
-- died stays in the list for minutes.

-- Sends a message on a channel. Returns whether clients listen to the channel. Monitors, and waiters of this crate for
-- fair locks, listen by a pattern. They do not count.
local function announce(channel, message)
  -- Most waiters of a fair lock that are tried until one listens.
  local MOST = 8

  -- Returns whether clients listen. pcall, here and below: an ACL may deny it.
  local function publish(channel)
    local listeners = redis.pcall('publish', channel, message)
    if type(listeners) ~= 'number' or listeners == 0 then return false end
    return (redis.pcall('pubsub', 'numsub', channel)[2] or 0) > 0
  end

  local listening = publish(channel)
  local queue, is_plain = string.gsub(channel, '^redisson_lock__channel', 'redisson_lock_queue')
  -- An error has no items: a key of another type has no waiters.
  for _, waiter in ipairs(is_plain == 1 and redis.pcall('lrange', queue, 0, MOST - 1) or {}) do
    if publish(channel .. ':' .. waiter) then return true end
  end
  return listening
end
