-- readers: readers of a name. Is put in front of every script that lets readers in or out.
--
-- A name that is read is a hash with two fields:
-- - mode, with the value write, so that every lock of Redisson's finds the name written by another owner,
-- - multilock: the ms of this master's clock at which the last reader's lease ends.
--
-- Beside it is the set of its readers: a sorted set of owner fields by the ms at which the lease of each ends.
-- Both keys end with the last lease. So the name itself keeps all others out. The loss of the set frees no reader's
-- name: a script that detects the loss adds a reader, lost:0, for the readers that it cannot name.
--
-- The set counts only if the name has the field multilock: a script that takes a name to read deletes the set of
-- earlier readers. No reader is deleted together with a name unless the same script saw the field multilock.

-- Functions on readers: made only for locks that are read, so that no other lock pays for them. They find each other in their
-- table.
local function readers()
  local self
  self = {
    -- Lets an owner read a free name.
    begin = function(name, its_readers, owner, ends)
      -- The name first: under OOM the script stops here, before anything is written.
      redis.call('hset', name, 'mode', 'write', 'multilock', ends)
      redis.call('pexpireat', name, ends)
      redis.call('del', its_readers)
      redis.call('zadd', its_readers, ends, owner)
      redis.call('pexpireat', its_readers, ends)
    end,

    -- The ms at which the last reader's lease ends, or nothing for a name that is not read.
    read_until = function(name)
      -- pcall: a key of another type is not read.
      local ends = redis.pcall('hget', name, 'multilock')
      return type(ends) == 'string' and tonumber(ends) or nil
    end,

    -- Turns a name from written to read by its owner, for its remaining TTL, and for `lease` at least.
    turn = function(name, its_readers, owner, lease)
      -- The clock after the TTL: if the server pauses in between, the end is late and not early.
      local left, time = redis.call('pttl', name), redis.call('time')
      local ends = time[1] * 1000 + math.floor(time[2] / 1000) + math.max(left, lease)
      -- First a write that needs no memory: after it OOM cannot stop the script.
      redis.call('hdel', name, owner)
      self.begin(name, its_readers, owner, ends)
    end,

    -- Sets the end of a name that is read, and of its readers.
    last_until = function(name, its_readers, ends)
      redis.call('hset', name, 'multilock', ends)
      redis.call('pexpireat', name, ends)
      redis.call('pexpireat', its_readers, ends)
    end,

    -- Brings the set in order, before the end of the last lease, `last`, changes.
    tidy = function(its_readers, last, now)
      -- A reader has a lease until `last`, and the set does not have it.
      local is_lost = last > now and not redis.call('zrangebyscore', its_readers, last, last, 'limit', 0, 1)[1]
      if is_lost then redis.call('zadd', its_readers, last, 'lost:0') end
      -- Deletes some readers with leases that have ended, so that they do not pile up while others read on.
      local over = redis.call('zrangebyscore', its_readers, '-inf', now, 'limit', 0, 64)
      if over[1] then redis.call('zrem', its_readers, unpack(over)) end
    end,

    -- Lets an owner read beside others, or for longer, until `ends` at least.
    join = function(name, its_readers, owner, ends, last, now)
      -- pcall: a key of another type has no readers.
      if type(redis.pcall('zcard', its_readers)) ~= 'number' then redis.call('del', its_readers) end
      ends = math.max(ends, tonumber(redis.call('zscore', its_readers, owner) or 0))
      self.tidy(its_readers, last, now)
      redis.call('zadd', its_readers, ends, owner)
      self.last_until(name, its_readers, math.max(last, ends))
    end,

    -- Takes an owner out. Returns the ms for which the name is still read, and whether they are fewer than before.
    -- Returns nothing if the name is not read, or not by this owner.
    remove = function(name, its_readers, owner, now)
      local last = self.read_until(name)
      -- pcall: a key of another type has no readers.
      local its = redis.pcall('zscore', its_readers, owner)
      if type(its) ~= 'string' then return nil end
      redis.call('zrem', its_readers, owner)
      if not last then return nil end
      -- The end depends on the last lease alone, also if the set has lost its reader. So an owner with an earlier end
      -- does not change it.
      if tonumber(its) < last then return last - now, false end
      local next = redis.call('zrange', its_readers, -1, -1, 'withscores')
      local ends = tonumber(next[2] or 0)
      if ends <= now then
        redis.call('del', name, its_readers)
        return 0, true
      end
      if ends < last then self.last_until(name, its_readers, ends) end
      return ends - now, ends < last
    end,
  }
  return self
end
