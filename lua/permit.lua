-- permit: for a permit, look first whether as many waiters stand before its waiter as seats are free. Is put in front of
-- acquire.lua, which then takes the seat. An owner that has the seat on other masters comes with the ticket 0. With the
-- seat it brings the number of permits to a master that has forgotten both, or was not asked before.
--
-- KEYS  those of acquire.lua for the seat, and behind them the deadlines of the pool
-- ARGV  those of acquire.lua, with a waiter or an empty word, and behind them the number of permits
-- Returns
--   {stamp, 5, ms left, cause, label, open}   refused, and the waiter is in the queue. The cause is that of the seat. Open
--                                             are the numbers of seats, with spaces between them, for which the caller
--                                             would be let in; then nothing of the ms is left. The stamp has no record
-- or an error, and nothing was written:
--   PERMITS ...   the name has another number of permits, one of which somebody holds or waits for
--
-- The seat that is asked for is not exchanged for another one here. So each attempt concerns one seat on all masters, and
-- is as safe as that of a lock.

do
  local its_deadlines, permits = table.remove(KEYS), table.remove(ARGV)
  local pool, number = string.match(KEYS[1], '^(.*:seat):(%d+)$')
  local wanted, lease = tonumber(number), tonumber(ARGV[2])
  local key = beside(pool, 'multilock_permits')
  -- pcall: a key of another type has no number.
  local stored = redis.pcall('get', key)
  -- A waiter's ticket counts for 15 s.
  local stands = math.max(lease, 15000)
  if stored and stored ~= permits then
    local queues = queues()
    if not seats(queues, pool).are_unused() then
      local words = 'PERMITS %s has %s permits, and this client wants %s'
      return redis.error_reply(string.format(words, string.sub(pool, 1, -6), type(stored) == 'string' and stored or 'no number of', permits))
    end
    stored = nil
  end
  if not stored then
    -- Before anything else is written: under OOM the script stops here.
    redis.call('set', key, permits, 'px', stands)
  elseif redis.call('pttl', key) < stands then
    redis.call('pexpire', key, stands)
  end

  -- An owner that has its seat on other masters passes all waiters, and may have the seat here, too.
  if ARGV[6] ~= '0' and redis.call('exists', KEYS[1], its_deadlines) > 0 then
    local held = redis.call('exists', KEYS[1])
    local time = redis.call('time')
    local stamp = time[1] * 1000000 + time[2]
    local now, ticket, waiter = math.floor(stamp / 1000), tonumber(ARGV[6]), ''
    if ARGV[7] ~= '' then waiter = string.match(ARGV[1], '^(.*):') .. ':' .. string.match(ARGV[7], '^[^ ]*') end
    local queues = queues()
    local queue = queues.of(its_deadlines)
    local its = seats(queues, pool)
    local open = its.free()
    local before, earliest = its.ahead(now, ticket, waiter, #open)
    if held == 1 or before >= #open then
      local left, label, cause = 0, '', 'a'
      if waiter ~= '' then queues.enqueue(queue, its_deadlines, now, waiter, ARGV[6]) end
      if before >= #open then
        if #open > 0 then
          -- No call tells that a lease has ended, and a waiter whose process stands still does not ask by itself.
          its.call_first(now, waiter)
          earliest = select(2, its.ahead(now, ticket, waiter, #open))
        end
        -- Each waiter ahead gets a seat, too.
        local lefts = its.lefts()
        local rank = waiter ~= '' and redis.pcall('zrank', queue, waiter) or redis.pcall('zcard', queue)
        left = lefts[(type(rank) == 'number' and rank or 0) - #open + 1] or REASK
        -- A waiter that was called may not come.
        if earliest then left = math.min(left, earliest - now) end
        left = math.max(left, 1)
        open = {}
      end
      if held == 1 then
        local one
        cause, one = queues.holder(KEYS[1], queue)
        label = one and label_of(one) or ''
      end
      return {stamp, 5, left < math.huge and math.floor(left) or -1, cause, label, table.concat(open, ' ')}
    end
    -- acquire.lua refuses a call without a token where others have one. Then nobody else's turn is used up.
    if ARGV[3] ~= '' or redis.call('exists', KEYS[4]) == 0 then
      if waiter ~= '' then queues.drop(queue, its_deadlines, waiter) end
      its.tell(its.call_first(now, '', nil, wanted), lease)
    end
  end
  -- There is no other queue for the seat.
  ARGV[6], ARGV[7] = '0', ''
end
