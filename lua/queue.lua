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
--
-- The commands that most calls run get their numbers as text: a server takes longer to turn a number into text than for most
-- of the command. The id of a client is a UUID, which has no colon and no r, so an r before a colon is that of a reader.

-- Waiters that this script may still drop, in the queues of all its names together: no other call is served meanwhile.
local drops_left = 1024
-- Most waiters that are looked at in one go, in each of the two queues, for the same reason.
local MOST_LOOKED_AT = 512
-- Ms after which a waiter asks again by itself.
local REASK = 5000

-- Functions on a queue: made only if a queue exists, so that other calls do not pay for them. They find each other in their
-- table.
local function queues()
  -- Clients whose waiters this script has called because one of them did not come, by the queue.
  local others_called = {}

  local self
  self = {
    -- The queue of a name, by the key of its deadlines.
    of = function(deadlines)
      return 'multilock_queue' .. string.sub(deadlines, #'multilock_deadlines' + 1)
    end,

    -- Only listeners of the channel itself count: a monitor listens to all channels by a pattern.
    has_hung_up = function(waiter)
      -- pcall: if the command is denied, waiters that have ended are dropped when their tickets run out.
      return redis.pcall('pubsub', 'numsub', 'multilock:' .. string.match(waiter, '^[^:]*'))[2] == 0
    end,

    -- The readers' queue beside a queue, and the readers.
    of_readers = function(queue)
      local name = string.sub(queue, #'multilock_queue' + 1)
      return 'multilock_readers_queue' .. name, 'multilock_readers' .. name
    end,

    -- The queue of a waiter: that of the name, or its readers' queue.
    queue_of = function(queue, waiter)
      return string.find(waiter, 'r:', 1, true) and self.of_readers(queue) or queue
    end,

    -- Takes a waiter out, and returns whether it was there. For a waiter that wants to read, also returns the number
    -- of waiters before it.
    drop = function(queue, deadlines, waiter)
      local its_queue = self.queue_of(queue, waiter)
      -- pcall, here and below: a key of another type has no waiters, and must not stop a script that has written.
      local rank = its_queue ~= queue and redis.pcall('zrank', its_queue, waiter)
      local removed = redis.pcall('zrem', its_queue, waiter) == 1
      redis.pcall('zrem', deadlines, waiter)
      return removed, type(rank) == 'number' and rank
    end,

    -- The deadline of a waiter as it is stored, or 0.
    stored_deadline = function(deadlines, waiter)
      return tonumber(redis.pcall('zscore', deadlines, waiter)) or 0
    end,

    -- The deadline of a waiter, if its ticket counts; else the waiter is dropped. With `here`, the waiters of a client
    -- that has hung up are dropped, too, except `here` itself.
    deadline_of = function(queue, deadlines, waiter, now, here)
      local deadline = self.stored_deadline(deadlines, waiter)
      if deadline > now and (not here or waiter == here or not self.has_hung_up(waiter)) then return deadline end
      self.drop(queue, deadlines, waiter)
      drops_left = drops_left - 1
      if deadline <= now and deadline % 1 > 0 then self.call_others_of(waiter, queue, deadlines, now) end
    end,

    is_before = function(ticket, waiter, its, other)
      return ticket < its or ticket == its and waiter < other
    end,

    -- The ticket of a waiter.
    ticket_of = function(queue, waiter)
      return tonumber(redis.pcall('zscore', self.queue_of(queue, waiter), waiter)) or 0
    end,

    -- The number of waiters of a name, and their smallest ticket.
    waiting = function(queue)
      local counted, smallest, readers = 0, nil, self.of_readers(queue)
      if redis.call('exists', queue, readers) == 0 then return 0 end
      for _, its_queue in ipairs({queue, readers}) do
        local its = redis.pcall('zcard', its_queue)
        if type(its) == 'number' and its > 0 then
          local ticket = tonumber(redis.call('zrange', its_queue, '0', '0', 'withscores')[2])
          counted, smallest = counted + its, math.min(smallest or ticket, ticket)
        end
      end
      return counted, smallest
    end,

    -- The waiter of one of the two queues with the smallest ticket that counts, and its deadline. Behind very many
    -- that were dropped, a waiter without a deadline: whether its ticket counts is not known yet.
    head_of = function(its_queue, queue, deadlines, now, here)
      for _ = 1, MOST_LOOKED_AT do
        local waiter = redis.pcall('zrange', its_queue, '0', '0')[1]
        if not waiter then return nil end
        local deadline = self.deadline_of(queue, deadlines, waiter, now, here)
        if deadline then return waiter, deadline end
        -- A member that belongs to the other queue, or is no waiter at all, was not dropped from this one.
        redis.pcall('zrem', its_queue, waiter)
        if drops_left <= 0 then break end
      end
      return redis.pcall('zrange', its_queue, '0', '0')[1]
    end,

    -- The head of both queues, or `among_alone` that of the waiters that want the name alone, and its deadline; behind them
    -- the head of the waiters that want the name alone.
    head = function(queue, deadlines, now, here, among_alone)
      local alone, deadline = self.head_of(queue, queue, deadlines, now, here)
      if among_alone then return alone, deadline, alone end
      local reader, until_ms = self.head_of(self.of_readers(queue), queue, deadlines, now, here)
      local is_reader_first = reader
        and not (alone and self.is_before(self.ticket_of(queue, alone), alone, self.ticket_of(queue, reader), reader))
      if is_reader_first then return reader, until_ms, alone end
      return alone, deadline, alone
    end,

    -- Calls a waiter to ask for a name, or for a seat of it; with `later`, only after that time. Returns its time to ask,
    -- unless that is denied.
    call = function(waiter, name, later, seat)
      local client, number, ms = string.match(waiter, '^([^:]*):(%d+[rk]?):(%d+)$')
      local message = (number or '') .. (seat or '') .. (later and '+' .. later or '') .. ' ' .. name
      -- pcall: an ACL may deny the channel; waiters then wake by their timers.
      local is_sent = type(redis.pcall('publish', 'multilock:' .. (client or waiter), message)) == 'number'
      return is_sent and (tonumber(ms) or 0) + (later or 0)
    end,

    -- Calls a waiter, except `here`, which needs no call, and a waiter that was called before. A waiter that does not
    -- ask in its time loses its turn.
    call_one = function(name, waiter, deadline, deadlines, now, here, later, seat)
      if waiter == here or deadline % 1 > 0 then return false end
      local comes_within = self.call(waiter, name, later, seat)
      if comes_within then
        redis.pcall('zadd', deadlines, math.min(deadline, now + comes_within) + 0.5, waiter)
      end
      return true
    end,

    -- Calls the other waiters of a client of which one was called and did not come. Tasks that wait for a permit or a set,
    -- or with other options, have a waiter each. If their process stands still, they are dropped together then, and not
    -- one after the other.
    call_others_of = function(missing, queue, deadlines, now)
      local client, its_queue = string.match(missing, '^([^:]*:)%d+[rk]?:%d+$'), self.queue_of(queue, missing)
      -- In braces, or behind a second colon if the name has a brace of its own.
      local name = string.match(queue, '^multilock_queue:{(.*)}$') or string.match(queue, '^multilock_queue::(.*)$')
      if not client or not name or others_called[client .. its_queue] then return end
      others_called[client .. its_queue] = true
      local some = redis.pcall('zrange', its_queue, 0, MOST_LOOKED_AT - 1)
      for i = 1, #some do
        if string.sub(some[i], 1, #client) == client then
          local deadline = self.stored_deadline(deadlines, some[i])
          if deadline > now then self.call_one(name, some[i], deadline, deadlines, now, '') end
        end
      end
    end,

    -- Calls the waiters that want to read, from a place of their queue on. Stops before a ticket that is larger than
    -- that of the first waiter that wants the name alone. At most CALLED in one go.
    call_readers = function(name, queue, deadlines, now, here, later, from, alone)
      local CALLED = 128
      local readers, called, looked_at, at = self.of_readers(queue), 0, 0, from
      local its = alone and self.ticket_of(queue, alone)
      while called < CALLED and looked_at < 2 * MOST_LOOKED_AT do
        local some = redis.pcall('zrange', readers, at, at + CALLED - 1, 'withscores')
        if not some[1] then return end
        for i = 1, #some, 2 do
          local waiter = some[i]
          if alone and self.is_before(its, alone, tonumber(some[i + 1]), waiter) then return end
          local deadline = self.stored_deadline(deadlines, waiter)
          at, looked_at = at + 1, looked_at + 1
          -- A waiter that was called is not checked for a hang-up: it may ask until its deadline.
          if not (deadline > now and deadline % 1 > 0) then
            if deadline <= now or waiter ~= here and self.has_hung_up(waiter) then
              -- A server that takes no writes drops nobody.
              if self.drop(queue, deadlines, waiter) then at = at - 1 end
              drops_left = drops_left - 1
              if drops_left <= 0 then return end
            elseif self.call_one(name, waiter, deadline, deadlines, now, here, later) then
              called = called + 1
              if called == CALLED then return end
            end
          end
        end
      end
    end,

    -- Calls the head; if the head wants to read, also the readers behind it, up to the first waiter that wants the name
    -- alone. If the name is `held` by readers, only readers are called.
    call_head = function(name, queue, deadlines, now, here, later, held)
      local first, deadline, alone = self.head(queue, deadlines, now, here)
      if first ~= alone then
        self.call_readers(name, queue, deadlines, now, here, later, 0, alone)
      elseif alone and not held then
        deadline = deadline or self.deadline_of(queue, deadlines, alone, now)
        if deadline then self.call_one(name, alone, deadline, deadlines, now, here, later) end
      end
    end,

    -- For a waiter that has been let in to read, and that was behind `rank` others: calls the next ones, if those
    -- behind it have not been called. Each reader checks, so that no waiter depends on a single other one.
    call_next = function(name, queue, deadlines, now, rank)
      -- The distance behind a reader that comes in at which it checks that the waiters have been called.
      local AHEAD = 64
      local readers = self.of_readers(queue)
      local behind = redis.pcall('zrange', readers, rank + AHEAD - 1, rank + AHEAD - 1)[1]
        or redis.pcall('zrange', readers, -1, -1)[1]
      if not behind then return end
      local deadline = self.stored_deadline(deadlines, behind)
      if deadline > now and deadline % 1 > 0 then return end
      local alone = self.head(queue, deadlines, now, '', true)
      self.call_readers(name, queue, deadlines, now, '', nil, rank, alone)
    end,

    -- Sends the head the end of a lease, if the lease ends before the head would ask by itself.
    tell_head = function(name, queue, deadlines, now, lease)
      local waiter = lease < REASK and self.head(queue, deadlines, now, '')
      if waiter then self.call(waiter, name, lease) end
    end,

    -- Puts a waiter into the queue with its ticket, and returns whether it is new there. A waiter that cannot be written
    -- has no place there, which does no harm. A waiter that asks at once counts as called: it has to ask in its time.
    enqueue = function(queue, deadlines, now, waiter, ticket, asks)
      -- Ms for which a ticket counts after its waiter has asked.
      local TICKET = '15000'
      local its_queue, deadline = self.queue_of(queue, waiter), now + TICKET
      if asks then deadline = now + (tonumber(string.match(waiter, '^[^:]*:[^:]*:(%d+)$')) or 0) + 0.5 end
      local is_new = redis.pcall('zadd', its_queue, ticket, waiter) == 1
      redis.pcall('zadd', deadlines, deadline, waiter)
      redis.pcall('pexpire', its_queue, TICKET)
      redis.pcall('pexpire', deadlines, TICKET)
      return is_new
    end,

    -- Recalls a hold of this crate: tells its client, by the number of the owner's field, that a waiter with this ticket
    -- wants the name. A call that does not wait for a holder has the last ticket: its recall concerns an idle grant alone,
    -- and begins with a question mark.
    recall = function(owner, ticket, name)
      local client, number = string.match(owner, '^([^:]*):(%d+)%l*$')
      local kind = ticket == '9007199254740991' and '?' or '!'
      -- pcall: an ACL may deny the channel. A recall is advice, and the waiter gets the name without it, too.
      if client then redis.pcall('publish', 'multilock:' .. client, kind .. number .. ' ' .. ticket .. ' ' .. name) end
    end,

    -- The kind of a name's holder, and for `o` also one owner, if it is known, and whether the owner holds it alone:
    -- - o: a client of this crate, with a UUID of version 8 for its id, or readers of this crate,
    -- - h: another library,
    -- - s: a key of another type.
    holder = function(key, queue)
      -- pcall: a key of another type is an answer here, not an error.
      local fields = redis.pcall('hlen', key)
      if type(fields) ~= 'number' then return 's' end
      -- The hashes of this crate have two fields at most.
      if fields > 64 then return 'h' end
      local whose, one, owners = 'h', nil, 0
      for _, field in ipairs(redis.call('hkeys', key)) do
        if field == 'multilock' then
          local _, readers = self.of_readers(queue)
          return 'o', redis.pcall('zrange', readers, -1, -1)[1]
        end
        if field ~= 'mode' then
          if string.sub(field, 15, 15) ~= '8' then return 'h' end
          whose, one, owners = 'o', field, owners + 1
        end
      end
      return whose, one, owners == 1
    end,
  }
  return self
end
