-- queue: who waits for a name. Stands in front of every script that lets somebody in or out of a queue.
--
-- A name has two sorted sets: its queue, of waiters by their tickets, and beats, of the same waiters by the ms of
-- this master's clock until which their tickets count. A waiter is written <client>:<number>:<ms>, and has so
-- many ms to come once it is called. It is called on the channel of its client, with its number and the name, and
-- between them, after a plus sign, the ms until it is to come, where that is not at once.
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
    local client = string.match(waiter, '^(.*):%d+:%d+$')
    return 'multilock:' .. (client or waiter)
  end

  -- Only those who listen to the channel itself count: a monitor listens to all of them by a pattern.
  local function has_hung_up(waiter)
    -- pcall: where it is denied, waiters that are gone are dropped when their time is over.
    return redis.pcall('pubsub', 'numsub', channel_of(waiter))[2] == 0
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

  -- The waiter with the smallest ticket that counts, its ticket and its beat. With `here`, who has hung up counts
  -- no longer, but for `here` itself.
  local function head(queue, beats, now, here)
    for _ = 1, MOST do
      local waiter, ticket = front(queue)
      if not waiter then return nil end
      local beat = redis.pcall('zscore', beats, waiter)
      beat = type(beat) == 'string' and tonumber(beat) or 0
      if beat > now and (not here or waiter == here or not has_hung_up(waiter)) then
        return waiter, ticket, beat
      end
      drop(queue, beats, waiter)
    end
    -- Who asks next looks at the others.
    local waiter, ticket = front(queue)
    if waiter then return waiter, ticket, now + 1 end
  end

  -- Tells a waiter to ask for a name; where `later` is given, only then. Its time to come, unless that is denied.
  local function call(waiter, name, later)
    local number, ms = string.match(waiter, ':(%d+):(%d+)$')
    local message = (number or '') .. (later and '+' .. later or '') .. ' ' .. name
    -- pcall: an ACL may deny the channel; waiters then wake by their timers.
    local told = type(redis.pcall('publish', channel_of(waiter), message)) == 'number'
    return told and (tonumber(ms) or 0) + (later or 0)
  end

  -- Calls the head, unless that is `here`, who knows, or has been called. It has to come then, or loses its turn.
  local function call_head(name, queue, beats, now, here, later)
    local waiter, _, beat = head(queue, beats, now, here)
    if not waiter or waiter == here or beat % 1 > 0 then return end
    local comes_within = call(waiter, name, later)
    if comes_within then redis.pcall('zadd', beats, math.min(beat, now + comes_within) + 0.5, waiter) end
  end

  -- Tells the head of a lease that ends before it would ask by itself.
  local function tell_head(name, queue, beats, now, lease)
    local waiter = lease < BEAT and head(queue, beats, now, '')
    if waiter then call(waiter, name, lease) end
  end

  -- Lets a waiter stand in the queue with its ticket. What cannot be written has no place there, and no harm done.
  local function stand(queue, beats, now, waiter, ticket)
    redis.pcall('zadd', queue, ticket, waiter)
    redis.pcall('zadd', beats, now + TICKET, waiter)
    redis.pcall('pexpire', queue, TICKET)
    redis.pcall('pexpire', beats, TICKET)
  end

  -- Who holds a name: o one of this crate's clients, whose ids are UUIDs of version 8; h another library's; s whoever
  -- made a key of another type.
  local function holder(key)
    -- pcall: a key of another type is an answer here, not an error.
    local fields = redis.pcall('hlen', key)
    if type(fields) ~= 'number' then return 's' end
    if fields > 64 then return 'h' end
    for _, field in ipairs(redis.call('hkeys', key)) do
      if field ~= 'mode' then return string.sub(field, 15, 15) == '8' and 'o' or 'h' end
    end
    return 'h'
  end

  return {
    front = front, head = head, call_head = call_head, tell_head = tell_head, stand = stand, drop = drop,
    holder = holder,
  }
end
