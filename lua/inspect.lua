-- inspect: who holds each name here, and how many wait for it. Writes nothing.
--
-- KEYS  for each name: the name, its queue
-- Returns {stamp, report 1, report 2, ...}: stamp is the master's wall clock in microseconds, and each
-- report is {type, ms left, waiters, those of them that wait to read, ...}, followed by
--   field 1, count 1, label 1, field 2, ...  for a hash of at most 1024 fields, or read by at most 8192; a label is
--                                            what the owner's client calls itself, or nothing
--   the SHA-1 of its value                   for a string: it tells holders apart and gives no secret away
-- type is 'none' for a free name.
--
-- Atomic, so that type, TTL and fields belong together.

local time = redis.call('time')
local reports = {time[1] * 1000000 + time[2]}
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  local kind = redis.call('type', key)['ok']
  -- pcall: a key of another type is nobody's queue.
  local waiting = redis.pcall('zcard', KEYS[i + 1])
  local to_read, most = 0, 1024
  if type(waiting) == 'number' and waiting > 0 then
    for _, waiter in ipairs(redis.call('zrange', KEYS[i + 1], 0, most - 1)) do
      -- As queue.lua writes them.
      if string.find(waiter, 'r:%d+$') then to_read = to_read + 1 end
    end
  end
  if kind == 'hash' and redis.call('hget', key, 'mode') == 'read' then most = 8192 end
  local report = {kind, redis.call('pttl', key), type(waiting) == 'number' and waiting or 0, to_read}
  if kind == 'hash' and redis.call('hlen', key) <= most then
    local texts = redis.call('hgetall', key)
    for j = 1, #texts, 2 do
      report[#report + 1] = texts[j]
      report[#report + 1] = texts[j + 1]
      report[#report + 1] = label_of(texts[j])
    end
  elseif kind == 'string' then
    report[5] = redis.sha1hex(redis.call('get', key))
  end
  reports[#reports + 1] = report
end
return reports
