-- readers: who reads a name. Stands in front of every script that lets readers out.
--
-- Beside a name that is held to read stand the readers of this crate, a sorted set of owner fields by the ms of this
-- master's clock at which the lease of each ends; and for each owner a key that lives as long, as Redisson has it.

-- The key of the name under which an owner's lease is kept, by Redisson's rule. Other libraries' owners have one for
-- each time they have entered.
local function timeout_key(name, owner, entry)
  local tagged = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
  return tagged .. ':' .. owner .. ':rwlock_timeout:' .. entry
end

-- Has a name last for as long as the last of its readers, after one has left; for how many ms, 0 when nobody reads.
-- It is only ever shortened. `left` is its TTL so far.
local function settle(name, readers, left, now)
  for _ = 1, 64 do
    local first = redis.call('zrange', readers, 0, 0, 'withscores')
    if not first[1] or tonumber(first[2]) > now then break end
    redis.call('zrem', readers, first[1])
    redis.call('hdel', name, first[1])
  end
  local fields = redis.call('hlen', name) - 1
  local last = redis.call('zrange', readers, -1, -1, 'withscores')
  local longest = last[1] and tonumber(last[2]) - now or 0
  if fields ~= redis.call('zcard', readers) then
    -- Other libraries' readers tell by keys of their own how long they read. Very many are waited for.
    if fields > 64 then return left end
    local entries = redis.call('hgetall', name)
    for i = 1, #entries, 2 do
      if entries[i] ~= 'mode' and not redis.call('zscore', readers, entries[i]) then
        for entry = 1, math.min(tonumber(entries[i + 1]) or 0, 64) do
          -- pcall: an ACL may deny the key.
          local its = redis.pcall('pttl', timeout_key(name, entries[i], entry))
          longest = math.max(longest, type(its) == 'number' and its or left)
        end
      end
    end
  end
  if fields < 1 or longest <= 0 then
    redis.call('del', name, readers)
    return 0
  end
  if longest < left then
    redis.call('pexpire', name, longest)
    redis.call('pexpire', readers, longest)
  end
  return math.min(longest, left)
end
