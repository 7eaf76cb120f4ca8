-- queue: who waits for a name. Stands in front of every script that lets somebody in or out of a queue.
--
-- A name has two sorted sets: its queue, of waiters by their tickets, and beats, of the same waiters by the ms of
-- this master's clock until which their tickets count. A waiter is written <client>:<number>:<ms>, and has so
-- many ms to come once it is called. The number of one that waits to read ends in an r: those that stand together at the
-- front go in together, and also beside others that read. A waiter is called on the channel of its client, with its
-- number and the name, and between them, after a plus sign, the ms until it is to come, where that is not at once.
-- The beat of a waiter that has been called, and not asked since, ends in a half.
--
-- A waiter that does not come or whose client has hung up is dropped by whoever meets it at the head.

-- What is done to a queue: made only where there is one, so that nobody else pays for it.
local function queues()
  -- For so many ms a ticket counts after its waiter has asked.
  local TICKET = 15000
  -- After so many ms it asks again by itself.
  local BEAT = 5000
  -- So many waiters are dropped in one go: nobody else is served meanwhile.
  local MOST = 512

  local function channel_of(waiter)
    local client = string.match(waiter, '^(.*):%d+r?:%d+$')
    return 'multilock:' .. (client or waiter)
  end

  -- Only those who listen to the channel itself count: a monitor listens to all of them by a pattern.
  local function has_hung_up(waiter)
    -- pcall: where it is denied, waiters that are gone are dropped when their time is over.
    return redis.pcall('pubsub', 'numsub', channel_of(waiter))[2] == 0
  end

  local function reads(waiter)
    return string.find(waiter, 'r:%d+$') ~= nil
  end

  -- Whether a name is held to read.
  local function is_read(name)
    -- pcall: a key of another type is not.
    return redis.pcall('hget', name, 'mode') == 'read'
  end

  local function drop(queue, beats, waiter)
    -- pcall, here and below: a key of another type has no waiters, and must not stop a script that has written.
    redis.pcall('zrem', queue, waiter)
    redis.pcall('zrem', beats, waiter)
  end

  -- The first waiter, whether its ticket counts or not, and its ticket.
  local function front(queue)
    local first = redis.pcall('zrange', queue, 0, 0, 'withscores')
    return first[1], tonumber(first[2])
  end

  -- The beat of a waiter whose ticket counts; else it is dropped. With `here`, who has hung up counts no longer, but
  -- for `here` itself.
  local function beat_of(queue, beats, waiter, now, here)
    local beat = redis.pcall('zscore', beats, waiter)
    beat = type(beat) == 'string' and tonumber(beat) or 0
    if beat > now and (not here or waiter == here or not has_hung_up(waiter)) then return beat end
    drop(queue, beats, waiter)
  end

  -- The waiter with the smallest ticket that counts, its ticket and its beat.
  local function head(queue, beats, now, here)
    for _ = 1, MOST do
      local waiter, ticket = front(queue)
      if not waiter then return nil end
      local beat = beat_of(queue, beats, waiter, now, here)
      if beat then return waiter, ticket, beat end
    end
    -- Who asks next looks at the others.
    local waiter, ticket = front(queue)
    if waiter then return waiter, ticket, now + 1 end
  end

  -- The same of those that do not wait to read.
  local function first_exclusive(queue, beats, now, here)
    local at, dropped = 0, 0
    while true do
      local some = redis.pcall('zrange', queue, at, at + 63, 'withscores')
      if not some[1] then return nil end
      for i = 1, #some, 2 do
        local waiter = some[i]
        if not reads(waiter) then
          -- Who asks next looks at the others.
          local beat = now + 1
          if dropped < MOST then beat = beat_of(queue, beats, waiter, now, here) end
          if beat then return waiter, tonumber(some[i + 1]), beat end
          dropped = dropped + 1
          at = at - 1
        end
      end
      at = at + #some / 2
    end
  end

  -- Tells a waiter to ask for a name; where `later` is given, only then. Its time to come, unless that is denied.
  local function call(waiter, name, later)
    local number, ms = string.match(waiter, ':(%d+r?):(%d+)$')
    local message = (number or '') .. (later and '+' .. later or '') .. ' ' .. name
    -- pcall: an ACL may deny the channel; waiters then wake by their timers.
    local told = type(redis.pcall('publish', channel_of(waiter), message)) == 'number'
    return told and (tonumber(ms) or 0) + (later or 0)
  end

  -- Calls a waiter, unless that is `here`, who knows, or has been called. It has to come then, or loses its turn.
  local function call_one(name, waiter, beat, beats, now, here, later)
    if waiter == here or beat % 1 > 0 then return end
    local comes_within = call(waiter, name, later)
    if comes_within then redis.pcall('zadd', beats, math.min(beat, now + comes_within) + 0.5, waiter) end
  end

  -- Calls the head, or all that wait to read up to the first that does not. Where the name is `held` to read, nobody
  -- else is let in.
  local function call_head(name, queue, beats, now, here, later, held)
    local waiter, _, beat = head(queue, beats, now, here)
    if not waiter then return end
    if not reads(waiter) then
      if not held then call_one(name, waiter, beat, beats, now, here, later) end
      return
    end
    for _, other in ipairs(redis.pcall('zrange', queue, 0, 2 * MOST - 1)) do
      if not reads(other) then return end
      beat = redis.pcall('zscore', beats, other)
      beat = type(beat) == 'string' and tonumber(beat) or 0
      local is_called = beat > now and beat % 1 > 0
      beat = not is_called and beat_of(queue, beats, other, now, here)
      if beat then call_one(name, other, beat, beats, now, here, later) end
    end
  end

  -- Tells the head of a lease that ends before it would ask by itself.
  local function tell_head(name, queue, beats, now, lease)
    local waiter = lease < BEAT and head(queue, beats, now, '')
    if waiter then call(waiter, name, lease) end
  end

  -- Lets a waiter stand in the queue with its ticket. What cannot be written has no place there, and no harm done. One
  -- that asks at once counts as called: it has to come in its time.
  local function stand(queue, beats, now, waiter, ticket, asks)
    local beat = now + TICKET
    if asks then beat = now + (tonumber(string.match(waiter, ':(%d+)$')) or 0) + 0.5 end
    redis.pcall('zadd', queue, ticket, waiter)
    redis.pcall('zadd', beats, beat, waiter)
    redis.pcall('pexpire', queue, TICKET)
    redis.pcall('pexpire', beats, TICKET)
  end

  -- Who holds a name: o this crate's clients, whose ids are UUIDs of version 8; h another library's; s whoever made a
  -- key of another type. Very many that read are looked at only by the number of ours among them. Of ours, where they
  -- were looked at, also one of them.
  local function holder(key, readers)
    -- pcall: a key of another type is an answer here, not an error.
    local fields = redis.pcall('hlen', key)
    if type(fields) ~= 'number' then return 's' end
    if fields > 64 then
      local are_ours = is_read(key)
      if readers then are_ours = redis.pcall('zcard', readers) == fields - 1 end
      return are_ours and 'o' or 'h'
    end
    local whose, one = 'h', nil
    for _, field in ipairs(redis.call('hkeys', key)) do
      if field ~= 'mode' then
        if string.sub(field, 15, 15) ~= '8' then return 'h' end
        whose, one = 'o', field
      end
    end
    return whose, one
  end

  return {
    front = front, head = head, first_exclusive = first_exclusive, call_head = call_head, tell_head = tell_head,
    stand = stand, drop = drop, holder = holder, is_read = is_read,
  }
end
