-- extend: raise the time to live of what some owners hold. Creates no hold.
--
-- KEYS  for each hold: name 1, revocation mark 1, ..., and when it is fenced: fence 1, fence 2, ...; for a
--       lock to read: readers 1, queue 1, deadlines 1, ...; and when the answer is to repeat the master's record
--       (introduce.lua): that
-- ARGV  1 when the record is given or 0, then for each hold: owner field, hold count, lease in ms, number of names, token
--       (0 when it is not fenced), the last token of its block, 1 to raise the fence or 0 to keep it up, and r for a lock to read or another word
-- Returns {stamp, answer 1, answer 2, ...}; stamp is the master's wall clock in microseconds, with a
-- record: as digits, a space, and what it says. The answer for each hold is
--   1                        continued: every name was held, none has less than the lease left; if the
--                            fence was to be raised, the token was above every fence
--   3                        continued, but the token was not above every fence, which stay as they are
--   2                        absent: a name is free here, or to be read and read by others; nothing was written
--   {0, ms left, type}       another holds a name, or the owner has left it; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written
-- or an error that begins with FENCE: one that is to be raised is spoilt (see acquire.lua); nothing was written
--
-- What is to be read and stands here to be written is turned, and those who wait to read are called: its downgrade did
-- not get here. Never the other way round: what a client sent before its downgrade may come after it.
--
-- Many holds in one call, because a process renews all of its holds together. Atomic, because a name
-- may expire between the look and the write. It never creates a hold: one that arrives after the
-- unlock must not leave an orphan. The fence moves only while the owner holds: a raise that strays
-- onto a master where another holds must not outdo that other's token.

local recorded = ARGV[1] == '1'
-- As in acquire.lua.
local BELOW, LIFE, ABOVE = 300000000, 600000000, 86400000000

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = redis.call('time')
local clock = time[1] * 1000000 + time[2]
local stamp, now = clock, clock / 1000
if recorded then
  -- pcall: a key of another type is no record.
  local record = redis.pcall('get', KEYS[#KEYS])
  stamp = string.format('%.0f ', stamp) .. (type(record) == 'string' and record or '')
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

-- What is done to readers, made once for all holds.
local made
local function reading()
  made = made or readers()
  return made
end

-- Makes a reader's lease last. A name that was written until now has been its own for as long as it lasts, and those who
-- wait to read it are called. The name's TTL first, also where it is long enough: after one write OOM cannot stop the script.
local function keep_reading(name, its_readers, queue, deadlines, owner, lease)
  local reading, left, ms = reading(), redis.call('pttl', name), math.floor(now)
  local last = reading.read_until(name)
  redis.call('pexpire', name, math.max(left, lease))
  if last then
    reading.join(name, its_readers, owner, ms + lease, last, ms)
  else
    reading.turn(name, its_readers, owner, lease)
    queues().call_head(name, queue, deadlines, ms, '', nil, true)
  end
end

-- Whether an owner has a name, to read it if it `reads`.
local function has(name, its_readers, owner, reads)
  -- pcall: a key of another type is an answer here, not an error.
  local held = redis.pcall('hget', name, owner)
  -- A count of 0 is what the owner has left, and keeps from everybody for a while (see retain.lua).
  if type(held) == 'string' then return held ~= '0' end
  -- Readers count only where the name is read.
  return reads and reading().read_until(name) and type(redis.pcall('zscore', its_readers, owner)) == 'string'
end

local function extend(first, names, fences, owner, count, lease, token, top, raise, mode)
  local last, absent, reads = first + 2 * names - 1, false, mode == 'r'
  -- Before the readers of the first name.
  local behind = last + fences
  for n = 1, names do
    local name, mark = KEYS[first + 2 * n - 2], KEYS[first + 2 * n - 1]
    if not has(name, KEYS[behind + 3 * n - 2], owner, reads) then
      if tonumber(redis.call('zscore', mark, owner) or 0) > now then return -1 end
      local left = redis.call('pttl', name)
      local others_read = reads and left ~= -2 and reading().read_until(name)
      if left ~= -2 and not others_read then return {0, left, redis.call('type', name)['ok']} end
      absent = true
    end
  end
  if absent then return 2 end
  local higher = raise ~= '1' or above(last + 1, last + fences, tonumber(token))
  if type(higher) == 'table' then return higher end
  for n = 1, names do
    local name, at = KEYS[first + 2 * n - 2], behind + 3 * n
    if reads then
      keep_reading(name, KEYS[at - 2], KEYS[at - 1], KEYS[at], owner, lease)
    else
      -- The TTL first, as above. It is only ever raised.
      redis.call('pexpire', name, math.max(redis.call('pttl', name), lease))
      redis.call('hset', name, owner, count)
    end
  end
  if not higher then return 3 end
  keep_up(last + 1, last + fences, top)
  return 1
end

local answers, first = {stamp}, 1
for i = 2, #ARGV, 8 do
  local names, token, mode = tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 7]
  local fences = token == '0' and 0 or names
  local answer =
    extend(first, names, fences, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), token, ARGV[i + 5], ARGV[i + 6], mode)
  -- Only a hold that stands alone is to raise its fences.
  if type(answer) == 'table' and answer.err then return answer end
  answers[#answers + 1] = answer
  first = first + (mode == 'r' and 5 or 2) * names + fences
end
return answers
