-- readers: who reads a name. Stands in front of every script that lets readers out.
--
-- Beside a name that is held to read stand the readers of this crate, a sorted set of owner fields by the ms of this
-- master's clock at which the lease of each ends; and for each owner a key that lives as long, as Redisson has it.

-- What is done to readers: made only where there are some, so that nobody else pays for it.
local function readers()
  -- The key of the name under which an owner's lease is kept, by Redisson's rule. Other libraries' owners have one for
  -- each time they have entered.
  local function timeout_key(name, owner, entry)
    local tagged = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
    return tagged .. ':' .. owner .. ':rwlock_timeout:' .. entry
  end

  -- Has a name last for as long as the last of its readers, after one has left: its TTL, 0 when nobody reads, and
  -- whether it has become shorter. It is only ever shortened.
  local function settle(name, its_readers, now)
    local fields = redis.call('hlen', name) - 1
    -- pcall: a key of another type knows no readers, and must not stop a script that has let one out.
    if type(redis.pcall('zcard', its_readers)) ~= 'number' then redis.call('del', its_readers) end
    for _ = 1, fields > 0 and 64 or 0 do
      local oldest = redis.call('zrange', its_readers, 0, 0, 'withscores')
      if not oldest[1] or tonumber(oldest[2]) > now then break end
      redis.call('zrem', its_readers, oldest[1])
      fields = fields - redis.call('hdel', name, oldest[1])
    end
    if fields < 1 then
      redis.call('del', name, its_readers)
      return 0, true
    end
    local left = redis.call('pttl', name)
    local last = redis.call('zrange', its_readers, -1, -1, 'withscores')
    local longest = last[1] and tonumber(last[2]) - now or 0
    if longest < left and fields ~= redis.call('zcard', its_readers) then
      -- Other libraries' readers tell by keys of their own how long they read. Very many are waited for.
      if fields > 64 then return left, false end
      local entries = redis.call('hgetall', name)
      for i = 1, #entries, 2 do
        if entries[i] ~= 'mode' and not redis.call('zscore', its_readers, entries[i]) then
          for entry = 1, math.min(tonumber(entries[i + 1]) or 0, 64) do
            -- pcall: an ACL may deny the key.
            local its = redis.pcall('pttl', timeout_key(name, entries[i], entry))
            longest = math.max(longest, type(its) == 'number' and its or left)
          end
        end
      end
    end
    if longest >= left then return left, false end
    if longest <= 0 then
      redis.call('del', name, its_readers)
      return 0, true
    end
    redis.call('pexpire', name, longest)
    redis.call('pexpire', its_readers, longest)
    return longest, true
  end

  return {timeout_key = timeout_key, settle = settle}
end
