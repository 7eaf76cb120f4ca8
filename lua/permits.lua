-- permits: the seats of a name with permits, and the queue for all of them. Is put behind queue.lua in front of every
-- script that begins a hold of a seat, extends it or ends it, or that takes a waiter out of the queue.
--
-- A name with some number of permits has as many seats. Each is a name of its own, <name>:seat:<number> from 1, with
-- locks as of any other name. All seats share the queue and the deadlines of the name <name>:seat, their pool, so that a
-- lock of the name itself has a queue of its own. The key multilock_permits of the pool stores the number of permits, for
-- at least as long as somebody holds one or waits for one. An owner field of a permit has the letter k behind its number.
--
-- As many waiters are let in as seats are free. So as many are called, each one once, with the number of a free seat: a
-- second call to the same waiter would let a seat stay free.

-- The pool of an owner's seat; nothing for any other owner.
local function pool_of(owner, seat)
  -- A last byte above the digits is a letter.
  if (string.byte(owner, -1) or 0) <= 57 or not string.find(owner, ':%d+%l*k%l*$') then return nil end
  return string.match(seat, '^(.*:seat):%d+$')
end

-- A key that belongs to a pool: multilock_permits, multilock_queue or multilock_deadlines.
local function beside(pool, prefix)
  return prefix .. (string.find(pool, '{', 1, true) and '::' .. pool or ':{' .. pool .. '}')
end

-- Functions on the seats of a pool. An operator names a seat as any other lock, so the keys of the caller may be the seat's.
local function seats(queues, pool)
  local key, queue, deadlines = beside(pool, 'multilock_permits'), beside(pool, 'multilock_queue'), beside(pool, 'multilock_deadlines')
  -- Most waiters that are looked at in one go: no other call is served meanwhile.
  local MOST = 512
  -- pcall: a key of another type has no number.
  local stored = redis.pcall('get', key)
  local permits = math.min(type(stored) == 'string' and tonumber(stored) or 0, 64)
  local all = {}
  for n = 1, permits do all[n] = pool .. ':' .. n end

  local function held()
    return permits > 0 and redis.call('exists', unpack(all)) or 0
  end

  -- Numbers of the seats that are free.
  local function free()
    local open = {}
    if held() == permits then return open end
    for n = 1, permits do
      if redis.call('exists', all[n]) == 0 then open[#open + 1] = n end
    end
    return open
  end

  -- The ms for which the held seats are locked, the shortest first.
  local function lefts()
    local some = {}
    for n = 1, permits do
      local left = redis.call('pttl', all[n])
      if left ~= -2 then some[#some + 1] = left >= 0 and left or math.huge end
    end
    table.sort(some)
    return some
  end

  -- The number of waiters with a smaller ticket, up to `most`, and the earliest deadline of these.
  local function ahead(now, ticket, waiter, most)
    local at, earliest = 0, nil
    for _ = 1, MOST do
      -- pcall, here and below: a key of another type has no waiters.
      local first = redis.pcall('zrange', queue, at, at, 'withscores')
      local other = first[1]
      if at == most or not other or other == waiter then return at, earliest end
      if not queues.is_before(tonumber(first[2]), other, ticket, waiter) then return at, earliest end
      -- It matters at once whether the client of the waiter ahead still listens.
      local deadline = queues.deadline_of(queue, deadlines, other, now, waiter)
      if deadline then
        at = at + 1
        earliest = math.min(earliest or deadline, deadline)
      end
    end
    return at, earliest
  end

  -- Calls the first waiters, as many as seats are free: not `here`, which needs no call, and none that was called before.
  -- `first` is the seat for the first call. The seat `taken` is about to be held. Returns how many seats are free.
  local function call_first(now, here, first, taken)
    local open, at = {first}, 0
    for _, n in ipairs(free()) do
      if n ~= first and n ~= taken then open[#open + 1] = n end
    end
    local next_open = 1
    for _ = 1, MOST do
      local waiter = at < #open and redis.pcall('zrange', queue, at, at)[1]
      if not waiter then break end
      local deadline = queues.deadline_of(queue, deadlines, waiter, now)
      -- A waiter that was called is not checked for a hang-up: it may ask until its deadline.
      if deadline and deadline % 1 == 0 then
        deadline = queues.deadline_of(queue, deadlines, waiter, now, here)
        if deadline and queues.call_one(pool, waiter, deadline, deadlines, now, here, nil, open[next_open]) then
          next_open = next_open + 1
        end
      end
      if deadline then
        at = at + 1
      elseif drops_left <= 0 then
        break
      end
    end
    return #open
  end

  -- Tells the first waiter without a free seat, behind as many waiters as seats are `open`, when the next seat becomes free:
  -- as a lease ends, of those that are held or the new one, if that is before the waiter would ask by itself.
  local function tell(open, lease)
    local left = math.min(lefts()[1] or math.huge, lease)
    if left >= REASK then return end
    local waiter = redis.pcall('zrange', queue, open, open)[1]
    if waiter then queues.call(waiter, pool, left) end
  end

  -- Whether nobody has a permit, or waits for one.
  local function are_unused()
    return held() == 0 and redis.call('exists', deadlines) == 0
  end

  return {
    free = free, lefts = lefts, ahead = ahead, call_first = call_first, tell = tell, are_unused = are_unused,
  }
end
