-- withdraw: take a waiter out of its queues.
--
-- KEYS  for each name: the name, its queue, its deadlines
-- ARGV  waiter
-- Returns the number of queues in which it was.
--
-- In each queue from which the waiter is taken, the next waiters may need a call or a message:
-- - The name is free: the next waiter is called, because the last call may have gone to the waiter that withdraws.
-- - The name is read: the waiters behind that want to read are called.
-- - The name is held: the next waiter gets the message that it would have got at the head. Behind another library's
--   client the message is to ask, because only the head listens for its release. Else it is the end of a short lease.
--
-- A waiter for a permit is in one queue alone. As many waiters as seats are free are called, and the next one is told the
-- end of a short lease.
--
-- Atomic, because a release must not call the waiter in between.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local queues, removed = queues(), 0
for i = 1, #KEYS, 3 do
  local name, queue, deadlines = unpack(KEYS, i, i + 2)
  if queues.drop(queue, deadlines, ARGV[1]) then
    removed = removed + 1
    if string.find(ARGV[1], 'k:%d+$') then
      local its = seats(queues, name)
      its.tell(its.call_first(now, ''), math.huge)
      break
    end
    local is_read = readers().read_until(name)
    if is_read or redis.call('exists', name) == 0 then
      -- If the name is read, the call is for the waiters that want to read, too.
      queues.call_head(name, queue, deadlines, now, '', nil, is_read)
    end
    if redis.call('exists', name) == 1 then
      local left = queues.holder(name, queue) == 'o' and redis.call('pttl', name) or 0
      if left >= 0 then queues.tell_head(name, queue, deadlines, now, left) end
    end
  end
end
return removed
