-- readers: who reads a name. Stands in front of every script that lets readers in or out.
--
-- A name that is read is a hash with two fields: the mode, which is write, so that every lock of Redisson's finds it
-- written by somebody else; and multilock, the ms of this master's clock at which the last reader's lease ends. Beside it
-- stand its readers, a sorted set of owner fields by the ms at which the lease of each ends. Both keys end at that ms. So
-- the name itself keeps everybody else out, and a set that is lost frees nobody: whoever finds that adds a reader, lost:0,
-- for those that it cannot name.
--
-- The set counts only where the name has the field multilock: what another reader has left is deleted when a name is taken
-- to read. Nobody is deleted with a name whose field multilock was not seen by the same script.

-- What is done to readers: made only for locks that are read, so that no other lock pays for it.
local function readers()
  -- Has a name that is free be read by an owner.
  local function begin(name, its_readers, owner, ends)
    -- The name first: under OOM the script stops here, before anything is written.
    redis.call('hset', name, 'mode', 'write', 'multilock', ends)
    redis.call('pexpireat', name, ends)
    redis.call('del', its_readers)
    redis.call('zadd', its_readers, ends, owner)
    redis.call('pexpireat', its_readers, ends)
  end

  -- The ms at which the last reader's lease ends, or nothing for a name that is not read.
  local function read_until(name)
    -- pcall: a key of another type is not.
    local ends = redis.pcall('hget', name, 'multilock')
    return type(ends) == 'string' and tonumber(ends) or nil
  end

  -- Has a name that its owner writes be read by it: for as long as it has been its own, and for `lease` at least.
  local function turn(name, its_readers, owner, lease)
    -- The clock after the TTL: where the server stands still in between, the end is late and not early.
    local left, time = redis.call('pttl', name), redis.call('time')
    local ends = time[1] * 1000 + math.floor(time[2] / 1000) + math.max(left, lease)
    -- A write that needs no memory first: after it OOM cannot stop the script.
    redis.call('hdel', name, owner)
    begin(name, its_readers, owner, ends)
  end

  -- Has a name that is read, and its readers, last until `ends`.
  local function last_until(name, its_readers, ends)
    redis.call('hset', name, 'multilock', ends)
    redis.call('pexpireat', name, ends)
    redis.call('pexpireat', its_readers, ends)
  end

  -- Adds a reader for those that are not found, until the end of the last lease, `last`.
  local function lose(its_readers, last) redis.call('zadd', its_readers, last, 'lost:0') end

  -- Puts the readers in order before the end of the last lease, `last`, is another.
  local function tidy(its_readers, last, now)
    -- Somebody is in until then, and is not there.
    local is_lost = last > now and not redis.call('zrangebyscore', its_readers, last, last, 'limit', 0, 1)[1]
    if is_lost then lose(its_readers, last) end
    -- Some of those whose lease has ended go, lest they pile up where others read on.
    local over = redis.call('zrangebyscore', its_readers, '-inf', now, 'limit', 0, 64)
    if over[1] then redis.call('zrem', its_readers, unpack(over)) end
  end

  -- Has an owner read beside others, or for longer, until `ends` at least.
  local function join(name, its_readers, owner, ends, last, now)
    -- pcall: a key of another type has no readers.
    if type(redis.pcall('zcard', its_readers)) ~= 'number' then redis.call('del', its_readers) end
    ends = math.max(ends, tonumber(redis.call('zscore', its_readers, owner) or 0))
    tidy(its_readers, last, now)
    redis.call('zadd', its_readers, ends, owner)
    last_until(name, its_readers, math.max(last, ends))
  end

  -- Lets out an owner, and tells for how many ms the name is still read, and whether that is less than before. Nothing
  -- where it is not read, or not by this owner.
  local function leave(name, its_readers, owner, now)
    local last = read_until(name)
    -- pcall: a key of another type has no readers.
    local its = redis.pcall('zscore', its_readers, owner)
    if type(its) ~= 'string' then return nil end
    redis.call('zrem', its_readers, owner)
    if not last then return nil end
    -- Whose lease is not the last one does not bring the end nearer, also where the last one is not found.
    if tonumber(its) < last then return last - now, false end
    local next = redis.call('zrange', its_readers, -1, -1, 'withscores')
    local ends = tonumber(next[2] or 0)
    if ends <= now then
      redis.call('del', name, its_readers)
      return 0, true
    end
    if ends < last then last_until(name, its_readers, ends) end
    return ends - now, ends < last
  end

  return {
    begin = begin, read_until = read_until, turn = turn, last_until = last_until, lose = lose, tidy = tidy, join = join,
    leave = leave,
  }
end
