-- leave: take a waiter out of its queues.
--
-- KEYS  for each name: the name, its queue, its deadlines
-- ARGV  waiter
-- Returns in how many queues it stood.
--
-- Where it stood and nobody holds the name, the next one is called: the call may have been its own; where the name is
-- read, those are called who wait to read and were behind it. Where somebody holds it, the next one is told what it would
-- have been told at the head: to ask, behind a client of another library, whose release only the head listens for; the
-- end of a short lease. Atomic, because a release must not call it in between.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local queues, stood = queues(), 0
for i = 1, #KEYS, 3 do
  local name, queue, deadlines = unpack(KEYS, i, i + 2)
  if queues.drop(queue, deadlines, ARGV[1]) then
    stood = stood + 1
    local is_read = readers().read_until(name)
    if is_read or redis.call('exists', name) == 0 then
      -- Where it is read, this is for those who wait to read, too.
      queues.call_head(name, queue, deadlines, now, '', nil, is_read)
    end
    if redis.call('exists', name) == 1 then
      local left = queues.holder(name, queue) == 'o' and redis.call('pttl', name) or 0
      if left >= 0 then queues.tell_head(name, queue, deadlines, now, left) end
    end
  end
end
return stood
