-- extend: raise the time to live of what some owners hold. Creates no hold.
--
-- KEYS  for each hold: name 1, revocation mark 1, ..., and when it is fenced: fence 1, fence 2, ...; for a
--       read/write lock: readers 1, the owner's time-out 1, ...; for one that is to be read: queue 1, beats 1, ...; after
--       them the charter, and when the master's
--       memory is marked: its marker
-- ARGV  1 when the memory is marked or 0, longest lease in ms that the client reckons with, then for each
--       hold: owner field, hold count, lease in ms, number of names, token (0 when it is not fenced), the last
--       token of its block, 1 to raise the fence or 0 to keep it up, and w or r for a read/write lock or nothing
-- Returns {stamp, answer 1, answer 2, ...}; stamp is the master's wall clock in microseconds, with a
-- marker: as digits, a space, and what it says. The answer for each hold is
--   1                        continued: every name was held, none has less than the lease left; if the
--                            fence was to be raised, the token was above every fence
--   3                        continued, but the token was not above every fence, which stay as they are
--   2                        absent: a name is free here, or to be read and read by others; nothing was written
--   {0, ms left, type}       another holds a name, or the owner has left it; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written
-- or {stamp, -2, longest} for all of them: others may have longer leases than the client reckons with, up
-- to so many ms; nothing was written
-- or an error that begins with FENCE: one that is to be raised is spoilt (see acquire.lua); nothing was written
--
-- What is to be read and stands here to be written is turned, and those who wait to read are called: its downgrade did
-- not get here. Never the other way round: what a client sent before its downgrade may come after it.
--
-- Many holds in one call, because a process renews all of its holds together. Atomic, because a name
-- may expire between the look and the write. It never creates a hold: one that arrives after the
-- unlock must not leave an orphan. The fence moves only while the owner holds: a raise that strays
-- onto a master where another holds must not outdo that other's token.

local marked = ARGV[1] == '1'
-- As in acquire.lua.
local BELOW, LIFE, ABOVE = 300000000, 600000000, 86400000000

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = redis.call('time')
local clock = time[1] * 1000000 + time[2]
local stamp, now = clock, clock / 1000
if marked then stamp = string.format('%.0f ', stamp) .. (redis.call('get', KEYS[#KEYS]) or '') end

-- Who does not know how long others may hold cannot tell whose votes count.
local agreed = redis.call('get', KEYS[marked and #KEYS - 1 or #KEYS])
if agreed then
  local longest = tonumber(string.match(agreed, '^%d+')) or 0
  if longest > tonumber(ARGV[2]) then return {stamp, -2, string.format('%.0f', longest)} end
end

-- Whether a token is above all of the fences, or the error of one that is spoilt. They are as in acquire.lua.
local function above(first, last, token)
  local higher = true
  for i = first, last do
    -- pcall: a key of another type is spoilt, too.
    local stored = redis.pcall('get', KEYS[i])
    local fence = clock - BELOW
    if stored then
      fence = type(stored) == 'string' and tonumber(stored)
      if not (fence and fence >= 0 and fence <= clock + ABOVE) then
        return redis.error_reply(
          'FENCE ' .. KEYS[i] .. ' holds no token of the last day or earlier, by this clock; DEL it')
      end
    end
    if token <= fence then higher = false end
  end
  return higher
end

-- Makes the fences at least the last token of a block, unless it is so old that the floor is above it. One that
-- is spoilt stays as it is: it keeps everybody else out, and the hold was there before.
local function keep_up(first, last, top)
  top = tonumber(top)
  local left = math.ceil((top + LIFE - clock) / 1000)
  for i = first, last do
    local stored = redis.pcall('get', KEYS[i])
    local below = not stored or type(stored) == 'string' and (tonumber(stored) or top) < top
    if below and left > 0 then redis.call('set', KEYS[i], string.format('%.0f', top), 'px', left) end
  end
end

-- Makes a reader's lease last, and tells for how long the name has to. A name that was written until now has been its
-- own for as long as it lasts, and those who wait to read it are called. Nothing does so where the queue is not given.
local function keep_reading(name, left, readers, timeout, queue, beats, owner, lease)
  local mine = lease
  if redis.call('hget', name, 'mode') == 'read' then
    -- pcall: a key of another type has no readers, and must not stop a script that has written.
    local its = redis.pcall('zscore', readers, owner)
    if type(its) == 'string' then mine = math.max(mine, tonumber(its) - math.floor(now)) end
    if type(its) == 'table' then redis.call('del', readers) end
  else
    redis.call('hset', name, 'mode', 'read')
    redis.call('del', readers)
    mine = math.max(mine, left)
    if queue then queues().call_head(name, queue, beats, math.floor(now), '', nil, true) end
  end
  redis.call('zadd', readers, math.floor(now) + mine, owner)
  redis.call('pexpire', readers, math.max(left, mine))
  redis.call('set', timeout, 1, 'px', mine)
end

local function extend(first, names, fences, owner, count, lease, token, top, raise, mode)
  local last, absent = first + 2 * names - 1, false
  for i = first, last, 2 do
    -- pcall: a key of another type is an answer here, not an error.
    local held = redis.pcall('hget', KEYS[i], owner)
    -- A count of 0 is what the owner has left, and keeps from everybody for a while (see retain.lua).
    if type(held) ~= 'string' or held == '0' then
      if tonumber(redis.call('zscore', KEYS[i + 1], owner) or 0) > now then return -1 end
      local left = redis.call('pttl', KEYS[i])
      local others_read = mode == 'r' and left ~= -2 and redis.pcall('hget', KEYS[i], 'mode') == 'read'
      if left ~= -2 and not others_read then return {0, left, redis.call('type', KEYS[i])['ok']} end
      absent = true
    end
  end
  if absent then return 2 end
  local higher = raise ~= '1' or above(last + 1, last + fences, tonumber(token))
  if type(higher) == 'table' then return higher end
  for i = first, last, 2 do
    -- The TTL first, also where it is long enough: after one write OOM cannot stop the script. It is only ever raised.
    local left = redis.call('pttl', KEYS[i])
    redis.call('pexpire', KEYS[i], math.max(left, lease))
    redis.call('hset', KEYS[i], owner, count)
    if mode ~= '' and (mode == 'r' or redis.call('hget', KEYS[i], 'mode') == 'read') then
      local at = last + fences + (i - first)
      local queue, beats
      if mode == 'r' then queue, beats = KEYS[at + 2 * names + 1], KEYS[at + 2 * names + 2] end
      keep_reading(KEYS[i], left, KEYS[at + 1], KEYS[at + 2], queue, beats, owner, lease)
    end
  end
  if not higher then return 3 end
  keep_up(last + 1, last + fences, top)
  return 1
end

local answers, first = {stamp}, 1
for i = 3, #ARGV, 8 do
  local names, token, mode = tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 7]
  local fences = token == '0' and 0 or names
  local answer =
    extend(first, names, fences, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), token, ARGV[i + 5], ARGV[i + 6], mode)
  -- Only a hold that stands alone is to raise its fences.
  if type(answer) == 'table' and answer.err then return answer end
  answers[#answers + 1] = answer
  first = first + (mode == '' and 2 or mode == 'w' and 4 or 6) * names + fences
end
return answers
