-- force: take the names from the holders that were seen there, and lock these holders out.
--
-- KEYS  for each name: the name, its revocation mark, its queue, its deadlines, its readers
-- ARGV  microseconds of this master's clock after which the script does nothing, ms that a mark lives, label of the client
--       that forces, its reason or an empty word, 1 to announce it to clients of Redisson's or 0; with 1, for each name
--       its channel as a lock and as a read/write lock; then for each name: number of holders, holder 1, ...
--       A holder is a field of a hash, or, for another library's key, 'string:' and the SHA-1 of its value.
-- Returns 'done', or 'late' if the call came too late and nothing was done.
--
-- The script touches only the holders that were seen, and only for a short time after that: a request that was
-- delayed on its way must not take a newer hold away. The mark is a sorted set of owner fields by the ms at which
-- each ends. With the mark, late calls of those owners (an acquire, an extension) are answered "revoked", even on a
-- master that had no field of the owner yet. Without the mark the holder's next renewal would undo the force. Atomic,
-- so that no call comes between delete and mark.

local call = redis.call
local time = call('time')
local stamp = time[1] * 1000000 + time[2]
if stamp > tonumber(ARGV[1]) then return 'late' end

local lifetime, now = tonumber(ARGV[2]), math.floor(stamp / 1000)
local names = #KEYS / 5
local announced = ARGV[5] == '1'
local at = announced and 6 + 2 * names or 6
local reading = readers()
for i = 1, names do
  local key, mark, queue, deadlines, its_readers = unpack(KEYS, 5 * i - 4, 5 * i)
  local kind = call('type', key)['ok']
  local mode = kind == 'hash' and call('hget', key, 'mode')
  local removed, pool = 0, nil
  local last = at + tonumber(ARGV[at])
  -- A write that needs no memory: after it OOM cannot stop the write of the mark. A key of another type is no mark.
  local old = redis.pcall('zremrangebyscore', mark, '-inf', string.format('%.0f', now))
  if type(old) == 'table' then call('del', mark) end
  for j = at + 1, last do
    local holder = ARGV[j]
    if kind == 'hash' then
      local is_reader = mode and reading.remove(key, its_readers, holder, now)
      removed = removed + (is_reader and 1 or call('hdel', key, holder))
    elseif kind == 'string' and 'string:' .. redis.sha1hex(call('get', key) or '') == holder then
      removed = removed + call('del', key)
    end
    if string.sub(holder, 1, 7) ~= 'string:' then
      call('zadd', mark, string.format('%.0f', now + lifetime), holder)
      -- All clients of a set give a mark the same life, so no other one in the key ends later.
      call('pexpire', mark, lifetime)
      -- The client may keep the name without a holder, and would take it for a new hold.
      local client, number = string.match(holder, '^(.*):(%d+)%l*s$')
      -- pcall: an ACL may deny the channel.
      if client then redis.pcall('publish', 'multilock:' .. client, 'x' .. number .. ' ' .. key) end
      pool = pool or pool_of(holder, key)
      local its = caption_of(holder)
      if its then
        redis.pcall('del', its)
        publish(holder, mark, 'forced')
      end
    end
  end
  if removed > 0 then
    -- The remainder of a read/write lock without an owner, of this crate or another library.
    if mode and not reading.read_until(key) and call('hlen', key) == 1 then call('del', key) end
    local queues, left = queues(), call('pttl', key)
    if left == -2 then
      if announced then announce(ARGV[4 + 2 * i + (mode and 1 or 0)], mode == 'write' and '1' or '0') end
      if pool then
        seats(queues, pool).call_first(now, '', tonumber(string.match(key, '%d+$')))
      else
        queues.call_head(key, queue, deadlines, now, '')
      end
    elseif left >= 0 then
      queues.tell_head(key, queue, deadlines, now, left)
    end
  end
  if last > at then remember_force(mark, stamp, ARGV[3], ARGV[4]) end
  at = last + 1
end
return 'done'
