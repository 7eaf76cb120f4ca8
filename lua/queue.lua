-- queue: waiters for a name. Is put in front of every script that lets a waiter into a queue or out of it.
--
-- A name has three sorted sets:
-- - its queue: the waiters that want it alone, by ticket,
-- - its readers' queue: the waiters that want to read it, by ticket,
-- - deadlines: all of them, by the ms of this master's clock until which their tickets count.
--
-- A waiter is written <client>:<number>:<ms>: once called, it has this number of ms to ask. The number of a waiter
-- that wants to read ends in an r. Such waiters go in together, also beside other readers, if their tickets are
-- smaller than all in the queue. The number of a waiter for a permit ends in a k (permits.lua). A waiter is called on the
-- channel of its client. The message has its number and the name. If the waiter is to ask later, a plus sign and the ms
-- are between them; if it is to ask for a seat, the seat's number. The deadline of a waiter that has been called, and has
-- not asked since, ends in a half.
--
-- A waiter is dropped if it does not ask, or if its client has hung up. The next script that finds it at the head
-- drops it.

-- Waiters that this script may still drop, in the queues of all its names together: no other call is served meanwhile.
local drops_left = 1024

-- Functions on a queue: made only if a queue exists, so that other calls do not pay for them.
local function queues()
  -- Ms for which a ticket counts after its waiter has asked.
  local TICKET = 15000
  -- Ms after which a waiter asks again by itself.
  local REASK = 5000
  -- Most waiters that are looked at in one go, in each of the two queues: no other call is served meanwhile.
  local MOST = 512
  -- Most readers that are called in one go, and the distance behind it at which each reader that comes in checks that
  -- the waiters have been called.
  local CALLED, AHEAD = 128, 64

  -- The queue of a name, by the key of its deadlines.
  local function of(deadlines)
    return 'multilock_queue' .. string.sub(deadlines, #'multilock_deadlines' + 1)
  end

  local function channel_of(waiter)
    local client = string.match(waiter, '^(.*):%d+[rk]?:%d+$')
    return 'multilock:' .. (client or waiter)
  end

  -- Only listeners of the channel itself count: a monitor listens to all channels by a pattern.
  local function has_hung_up(waiter)
    -- pcall: if the command is denied, waiters that have ended are dropped when their tickets run out.
    return redis.pcall('pubsub', 'numsub', channel_of(waiter))[2] == 0
  end

  local function reads(waiter)
    return string.find(waiter, 'r:%d+$') ~= nil
  end

  -- The readers' queue beside a queue, and the readers.
  local function of_readers(queue)
    local name = string.sub(queue, #'multilock_queue' + 1)
    return 'multilock_readers_queue' .. name, 'multilock_readers' .. name
  end

  -- The queue of a waiter: that of the name, or its readers' queue.
  local function queue_of(queue, waiter)
    return reads(waiter) and of_readers(queue) or queue
  end

  -- Takes a waiter out, and returns whether it was there. For a waiter that wants to read, also returns the number
  -- of waiters before it.
  local function drop(queue, deadlines, waiter)
    local its_queue = queue_of(queue, waiter)
    -- pcall, here and below: a key of another type has no waiters, and must not stop a script that has written.
    local rank = its_queue ~= queue and redis.pcall('zrank', its_queue, waiter)
    local removed = redis.pcall('zrem', its_queue, waiter) == 1
    redis.pcall('zrem', deadlines, waiter)
    return removed, type(rank) == 'number' and rank
  end

  local function is_called(deadline)
    return deadline % 1 > 0
  end

  local call_others_of
  -- Clients whose waiters this script has called for that reason, by the queue.
  local others_called = {}

  -- The deadline of a waiter, if its ticket counts; else the waiter is dropped. With `here`, the waiters of a client
  -- that has hung up are dropped, too, except `here` itself.
  local function deadline_of(queue, deadlines, waiter, now, here)
    local deadline = redis.pcall('zscore', deadlines, waiter)
    deadline = type(deadline) == 'string' and tonumber(deadline) or 0
    if deadline > now and (not here or waiter == here or not has_hung_up(waiter)) then return deadline end
    drop(queue, deadlines, waiter)
    drops_left = drops_left - 1
    if deadline <= now and is_called(deadline) then call_others_of(waiter, queue, deadlines, now) end
  end

  local function is_before(ticket, waiter, its, other)
    return ticket < its or ticket == its and waiter < other
  end

  -- The first waiter of one of the two queues, whether its ticket counts or not, and its ticket.
  local function first_of(its_queue)
    local first = redis.pcall('zrange', its_queue, 0, 0, 'withscores')
    return first[1], tonumber(first[2])
  end

  -- The number of waiters of a name, and their smallest ticket.
  local function waiting(queue)
    local counted, smallest = 0, nil
    for _, its_queue in ipairs({queue, (of_readers(queue))}) do
      local first, ticket = first_of(its_queue)
      if first then
        counted = counted + redis.call('zcard', its_queue)
        smallest = math.min(smallest or ticket, ticket)
      end
    end
    return counted, smallest
  end

  -- The waiter of one of the two queues with the smallest ticket that counts, its ticket and its deadline. Behind very many
  -- that were dropped, a waiter without a deadline: whether its ticket counts is not known yet.
  local function head_of(its_queue, queue, deadlines, now, here)
    for _ = 1, MOST do
      local waiter, ticket = first_of(its_queue)
      if not waiter then return nil end
      local deadline = deadline_of(queue, deadlines, waiter, now, here)
      if deadline then return waiter, ticket, deadline end
      -- A member that belongs to the other queue, or is no waiter at all, was not dropped from this one.
      redis.pcall('zrem', its_queue, waiter)
      if drops_left <= 0 then break end
    end
    return first_of(its_queue)
  end

  -- The head of the queue of waiters that want the name alone.
  local function first_alone(queue, deadlines, now, here)
    return head_of(queue, queue, deadlines, now, here)
  end

  -- The head of both queues.
  local function head(queue, deadlines, now, here)
    local alone, its, deadline = first_alone(queue, deadlines, now, here)
    local reader, ticket, until_ms = head_of(of_readers(queue), queue, deadlines, now, here)
    if reader and not (alone and is_before(its, alone, ticket, reader)) then return reader, ticket, until_ms end
    return alone, its, deadline
  end

  -- Calls a waiter to ask for a name, or for a seat of it; with `later`, only after that time. Returns its time to ask,
  -- unless that is denied.
  local function call(waiter, name, later, seat)
    local number, ms = string.match(waiter, ':(%d+[rk]?):(%d+)$')
    local message = (number or '') .. (seat or '') .. (later and '+' .. later or '') .. ' ' .. name
    -- pcall: an ACL may deny the channel; waiters then wake by their timers.
    local is_sent = type(redis.pcall('publish', channel_of(waiter), message)) == 'number'
    return is_sent and (tonumber(ms) or 0) + (later or 0)
  end

  -- Calls a waiter, except `here`, which needs no call, and a waiter that was called before. A waiter that does not
  -- ask in its time loses its turn.
  local function call_one(name, waiter, deadline, deadlines, now, here, later, seat)
    if waiter == here or is_called(deadline) then return false end
    local comes_within = call(waiter, name, later, seat)
    if comes_within then
      redis.pcall('zadd', deadlines, math.min(deadline, now + comes_within) + 0.5, waiter)
    end
    return true
  end

  -- Calls the other waiters of a client of which one was called and did not come. Tasks that wait for a permit or a set, or
  -- with other options, have a waiter each. If their process stands still, they are dropped together then, and not one
  -- after the other.
  function call_others_of(missing, queue, deadlines, now)
    local client, its_queue = string.match(missing, '^(.*:)%d+[rk]?:%d+$'), queue_of(queue, missing)
    -- In braces, or behind a second colon if the name has a brace of its own.
    local name = string.match(queue, '^multilock_queue:{(.*)}$') or string.match(queue, '^multilock_queue::(.*)$')
    if not client or not name or others_called[client .. its_queue] then return end
    others_called[client .. its_queue] = true
    local some = redis.pcall('zrange', its_queue, 0, MOST - 1)
    for i = 1, #some do
      if string.sub(some[i], 1, #client) == client then
        local deadline = redis.pcall('zscore', deadlines, some[i])
        deadline = type(deadline) == 'string' and tonumber(deadline) or 0
        if deadline > now then call_one(name, some[i], deadline, deadlines, now, '') end
      end
    end
  end

  -- Calls the waiters that want to read, from a place of their queue on. Stops before a ticket that is larger than
  -- that of the first waiter that wants the name alone. At most CALLED in one go.
  local function call_readers(name, queue, deadlines, now, here, later, from, alone, its)
    local readers, called, looked_at, at = of_readers(queue), 0, 0, from
    while called < CALLED and looked_at < 2 * MOST do
      local some = redis.pcall('zrange', readers, at, at + CALLED - 1, 'withscores')
      if not some[1] then return end
      for i = 1, #some, 2 do
        local waiter = some[i]
        if alone and is_before(its, alone, tonumber(some[i + 1]), waiter) then return end
        local deadline = redis.pcall('zscore', deadlines, waiter)
        deadline = type(deadline) == 'string' and tonumber(deadline) or 0
        at, looked_at = at + 1, looked_at + 1
        -- A waiter that was called is not checked for a hang-up: it may ask until its deadline.
        if not (deadline > now and is_called(deadline)) then
          if deadline <= now or waiter ~= here and has_hung_up(waiter) then
            -- A server that takes no writes drops nobody.
            if drop(queue, deadlines, waiter) then at = at - 1 end
            drops_left = drops_left - 1
            if drops_left <= 0 then return end
          elseif call_one(name, waiter, deadline, deadlines, now, here, later) then
            called = called + 1
            if called == CALLED then return end
          end
        end
      end
    end
  end

  -- Calls the head; if the head wants to read, also the readers behind it, up to the first waiter that wants the name
  -- alone. If the name is `held` by readers, only readers are called.
  local function call_head(name, queue, deadlines, now, here, later, held)
    local alone, its, deadline = first_alone(queue, deadlines, now, here)
    local reader, ticket = head_of(of_readers(queue), queue, deadlines, now, here)
    if reader and not (alone and is_before(its, alone, ticket, reader)) then
      call_readers(name, queue, deadlines, now, here, later, 0, alone, its)
    elseif alone and not held then
      deadline = deadline or deadline_of(queue, deadlines, alone, now)
      if deadline then call_one(name, alone, deadline, deadlines, now, here, later) end
    end
  end

  -- For a waiter that has been let in to read, and that was behind `rank` others: calls the next ones, if those
  -- behind it have not been called. Each reader checks, so that no waiter depends on a single other one.
  local function call_next(name, queue, deadlines, now, rank)
    local readers = of_readers(queue)
    local behind = redis.pcall('zrange', readers, rank + AHEAD - 1, rank + AHEAD - 1)[1]
      or redis.pcall('zrange', readers, -1, -1)[1]
    if not behind then return end
    local deadline = redis.pcall('zscore', deadlines, behind)
    deadline = type(deadline) == 'string' and tonumber(deadline) or 0
    if deadline > now and is_called(deadline) then return end
    local alone, its = first_alone(queue, deadlines, now, '')
    call_readers(name, queue, deadlines, now, '', nil, rank, alone, its)
  end

  -- Sends the head the end of a lease, if the lease ends before the head would ask by itself.
  local function tell_head(name, queue, deadlines, now, lease)
    local waiter = lease < REASK and head(queue, deadlines, now, '')
    if waiter then call(waiter, name, lease) end
  end

  -- Puts a waiter into the queue with its ticket, and returns whether it is new there. A waiter that cannot be written has
  -- no place there, which does no harm. A waiter that asks at once counts as called: it has to ask in its time.
  local function enqueue(queue, deadlines, now, waiter, ticket, asks)
    local its_queue, deadline = queue_of(queue, waiter), now + TICKET
    if asks then deadline = now + (tonumber(string.match(waiter, ':(%d+)$')) or 0) + 0.5 end
    local is_new = redis.pcall('zadd', its_queue, ticket, waiter) == 1
    redis.pcall('zadd', deadlines, deadline, waiter)
    redis.pcall('pexpire', its_queue, TICKET)
    redis.pcall('pexpire', deadlines, TICKET)
    return is_new
  end

  -- Recalls a hold of this crate: tells its client, by the number of the owner's field, that a waiter with this ticket
  -- wants the name. A call that does not wait for a holder has the last ticket: its recall concerns an idle grant alone,
  -- and begins with a question mark.
  local function recall(owner, ticket, name)
    local client, number = string.match(owner, '^(.*):(%d+)%l*$')
    local kind = ticket == '9007199254740991' and '?' or '!'
    -- pcall: an ACL may deny the channel. A recall is advice, and the waiter gets the name without it, too.
    if client then redis.pcall('publish', 'multilock:' .. client, kind .. number .. ' ' .. ticket .. ' ' .. name) end
  end

  -- The kind of a name's holder, and for `o` also one owner, if it is known, and whether the owner holds it alone:
  -- - o: a client of this crate, with a UUID of version 8 for its id, or readers of this crate,
  -- - h: another library,
  -- - s: a key of another type.
  local function holder(key, queue)
    -- pcall: a key of another type is an answer here, not an error.
    local fields = redis.pcall('hlen', key)
    if type(fields) ~= 'number' then return 's' end
    -- The hashes of this crate have two fields at most.
    if fields > 64 then return 'h' end
    local whose, one, owners = 'h', nil, 0
    for _, field in ipairs(redis.call('hkeys', key)) do
      if field == 'multilock' then
        local _, readers = of_readers(queue)
        return 'o', redis.pcall('zrange', readers, -1, -1)[1]
      end
      if field ~= 'mode' then
        if string.sub(field, 15, 15) ~= '8' then return 'h' end
        whose, one, owners = 'o', field, owners + 1
      end
    end
    return whose, one, owners == 1
  end

  return {
    of = of, waiting = waiting, head = head, first_alone = first_alone, call_head = call_head, call_next = call_next,
    tell_head = tell_head, enqueue = enqueue, recall = recall, drop = drop, holder = holder, is_before = is_before,
    call = call, call_one = call_one, deadline_of = deadline_of, is_called = is_called, REASK = REASK,
  }
end
