-- force: take the names away from the holders that were seen there, and keep these out.
--
-- KEYS  for each name: the name, its revocation mark, its queue, its beats, its readers
-- ARGV  microseconds of this master's clock after which nothing is done any more, ms that a mark lives, for each
--       name its channel as a lock and as a read/write lock, then for each name: number of holders, holder 1, ...
--       A holder is a field of a hash, or, for another library's key, 'string:' and the SHA-1 of its value.
-- Returns 'done', or 'late' when it came too late and nothing was done.
--
-- Only who was seen is touched, and only for a short time after it was: a request that was stuck on its
-- way must not take a newer hold away. The mark is a sorted set of owner fields by the ms at which each
-- ends. It makes stragglers of those owners (a late acquire, an extension) answer "revoked", also on a
-- master where the owner had nothing yet; without it the holder's next renewal would undo the force.
-- Atomic, so that nothing slips between delete and mark.

local call = redis.call
local time = call('time')
local stamp = time[1] * 1000000 + time[2]
if stamp > tonumber(ARGV[1]) then return 'late' end

-- Takes a key away from one holder; how many fields or keys that removed.
local function remove(key, its_readers, kind, mode, holder)
  if mode then
    -- pcall: what no reader of this crate has made is left as it is.
    redis.pcall('zrem', its_readers, holder)
    redis.pcall('del', readers().timeout_key(key, holder, 1))
  end
  if kind == 'hash' then return call('hdel', key, holder) end
  local is_seen = kind == 'string' and 'string:' .. redis.sha1hex(call('get', key) or '') == holder
  return is_seen and call('del', key) or 0
end

local lifetime, now = tonumber(ARGV[2]), math.floor(stamp / 1000)
local names = #KEYS / 5
local at = 3 + 2 * names
for i = 1, names do
  local key, mark, queue, beats, its_readers = unpack(KEYS, 5 * i - 4, 5 * i)
  local kind = call('type', key)['ok']
  local mode = kind == 'hash' and call('hget', key, 'mode')
  local removed, last = 0, at + tonumber(ARGV[at])
  -- A write that needs no memory: after it OOM cannot stop the mark.
  call('zremrangebyscore', mark, '-inf', string.format('%.0f', now))
  for j = at + 1, last do
    local holder = ARGV[j]
    removed = removed + remove(key, its_readers, kind, mode, holder)
    if string.sub(holder, 1, 7) ~= 'string:' then
      local ends = math.max(now + lifetime, tonumber(call('zscore', mark, holder) or 0))
      call('zadd', mark, string.format('%.0f', ends), holder)
      call('pexpire', mark, math.max(lifetime, call('pttl', mark)))
    end
  end
  if removed > 0 then
    local still = 0
    if mode == 'read' then
      still = readers().settle(key, its_readers, now)
    elseif mode and call('hlen', key) == 1 then
      call('del', key)
    end
    redis.pcall('publish', ARGV[1 + 2 * i + (mode and 1 or 0)], mode == 'write' and '1' or '0')
    local queues = queues()
    if still == 0 then
      queues.call_head(key, queue, beats, now, '')
    elseif still > 0 then
      queues.tell_head(key, queue, beats, now, still)
    end
  end
  at = last + 1
end
return 'done'
