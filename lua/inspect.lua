-- inspect: holders of each name here, and the number of its waiters. Writes nothing.
--
-- KEYS  for each name: the name, its queue, its readers' queue, its readers, its fence
-- Returns {stamp, report 1, report 2, ...}: stamp is the master's wall clock in microseconds. Each report is
-- {type, ms left, waiters, waiters that want to read, fence, first waiter, last force, ...}. The fence is the largest
-- token that was accepted, or an empty word. The first waiter has the least ticket; it comes with its label and that
-- ticket, or is an empty word. The last force is that of forces.lua, or an empty word. They are followed by
--   field 1, count 1, label 1, field 2, ...  for a hash of at most 1024 fields; a label is that of the owner
--                                            (labels.lua), or empty. For a name that clients of this crate read, the readers with a
--                                            current lease follow, as fields with the ms at which it ends; with more
--                                            than 8192 readers, nothing follows the waiters
--   the SHA-1 of its value                   for a string: it distinguishes holders and reveals no secret
-- type is 'none' for a free name.
--
-- Atomic, so that type, TTL and fields belong together.

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reports = {time[1] * 1000000 + time[2]}

-- Whether any of the names has waiters or was forced: a list of thousands of names costs less without a command for each.
local queues, forces = {}, {}
for i = 1, #KEYS, 5 do
  queues[#queues + 1] = KEYS[i + 1]
  queues[#queues + 1] = KEYS[i + 2]
  forces[#forces + 1] = force_beside(KEYS[i + 4])
end
-- pcall: where the command is denied, each name is looked at.
local has_waiters, has_forces = redis.pcall('exists', unpack(queues)) ~= 0, redis.pcall('exists', unpack(forces)) ~= 0

-- pcall: a key of another type has no waiters.
local function waiters(queue)
  if not has_waiters then return 0 end
  local waiting = redis.pcall('zcard', queue)
  return type(waiting) == 'number' and waiting or 0
end

-- Fields and readers of a hash; nothing if there are too many.
local function texts_of(key, its_readers)
  if redis.call('hlen', key) > 1024 then return {} end
  local texts, is_read = redis.call('hgetall', key), false
  for i = 1, #texts, 2 do is_read = is_read or texts[i] == 'multilock' end
  if not is_read then return texts end
  -- pcall: a key of another type has no readers.
  local readers = redis.pcall('zrangebyscore', its_readers, now, '+inf', 'withscores', 'limit', 0, 8193)
  if #readers > 2 * 8192 then return {} end
  for _, text in ipairs(readers) do texts[#texts + 1] = text end
  return texts
end

-- The waiter of both queues that has waited for longest, its label and its ticket.
local function first_of(queue, readers_queue)
  local first, ticket
  for _, one in ipairs({queue, readers_queue}) do
    local head = redis.pcall('zrange', one, 0, 0, 'withscores')
    if head[1] and (not ticket or tonumber(head[2]) < ticket) then first, ticket = head[1], tonumber(head[2]) end
  end
  if not first then return '' end
  -- A waiter is written <client>:<number>:<ms>.
  local field = string.match(first, '^(.*:%d+%l?):%d+$') or first
  return {field, label_of(field), ticket}
end

for i = 1, #KEYS, 5 do
  local key, queue, readers_queue, its_readers, fence = unpack(KEYS, i, i + 4)
  local kind, alone, to_read = redis.call('type', key)['ok'], waiters(queue), waiters(readers_queue)
  -- pcall: a fence of another type is none.
  local token = redis.pcall('get', fence)
  local report = {kind, redis.call('pttl', key), alone + to_read, to_read, type(token) == 'string' and token or '',
    alone + to_read > 0 and first_of(queue, readers_queue) or '', has_forces and last_force(fence) or ''}
  if kind == 'hash' then
    local texts = texts_of(key, its_readers)
    for j = 1, #texts, 2 do
      report[#report + 1] = texts[j]
      report[#report + 1] = texts[j + 1]
      report[#report + 1] = label_of(texts[j])
    end
  elseif kind == 'string' then
    report[8] = redis.sha1hex(redis.call('get', key))
  end
  reports[#reports + 1] = report
end
return reports
