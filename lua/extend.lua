-- extend: raise the time to live of the names that some owners hold. Creates no hold.
--
-- KEYS  for each hold: name 1, revocation mark 1, ...; with a token: fence 1, fence 2, ...; for a read lock: readers 1,
--       queue 1, deadlines 1, ...; and last the master's record (introduce.lua), if the answer is to repeat it
-- ARGV  1 if the record is given or 0, then for each hold: owner field, hold count, lease in ms, number of names, token
--       (0 for none), the last token of its block, 1 to raise the fence or 0 to keep it up, and r for a read lock or
--       another word
-- Returns {stamp, answer 1, answer 2, ...}; stamp is the master's wall clock in microseconds; with a
-- record: the clock in digits, a space, and the record's text. The answer for each hold is
--   1                        continued: every name was held, and none has less than the lease left; if the
--                            fence was to be raised, the token was above every fence
--   3                        continued, but the token was not above every fence; the fences stay as they are
--   2                        absent: a name is free here, or is to be read and others read it; nothing was written
--   {0, ms left, type}       another holds a name, or the owner has left it; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written. With the last force of the name, if
--                            it is known: {-1, at, by, reason} (forces.lua)
-- or an error that begins with FENCE: a fence that is to be raised is spoilt (see fences.lua); nothing was written
--
-- If a read hold finds its name written here, its downgrade did not arrive. The script then turns the name to be
-- read, and calls the waiters that want to read. It never turns a name back: a call that was sent before the
-- downgrade may arrive after it.
--
-- Many holds share one call, because a process renews all of its holds together. Atomic, because a name may expire
-- between the look and the write. The script never creates a hold: a call that arrives after the unlock must not
-- leave an orphan. The fence moves only while the owner holds. If a raise arrives on a master with another owner's
-- hold, it must not exceed that owner's token.

local recorded = ARGV[1] == '1'
-- The client detects with the stamp that a clock was set forward, or that a memory was wiped.
local time = redis.call('time')
local clock = time[1] * 1000000 + time[2]
local stamp, now = clock, clock / 1000
if recorded then
  -- pcall: a key of another type is no record.
  local record = redis.pcall('get', KEYS[#KEYS])
  stamp = string.format('%.0f ', stamp) .. (type(record) == 'string' and record or '')
end

-- Whether a token is above all of the fences, or the error of a spoilt fence.
local function above(first, last, token)
  local higher, fencing = true, fencing()
  for i = first, last do
    -- pcall: a key of another type is spoilt, too.
    local stored = redis.pcall('get', KEYS[i])
    local fence = stored and fencing.fence_of(stored, clock)
    if stored and not fence then return fencing.spoilt(KEYS[i]) end
    if token <= (fence or clock - BEHIND) then higher = false end
  end
  return higher
end

-- The functions on readers, made once for all holds.
local made
local function reading()
  made = made or readers()
  return made
end

-- Extends a reader's lease. A name that was written until now turns to be read, for at least its own TTL, and the
-- waiters that want to read it are called. The name's TTL is set first, even if it is long enough: after one write
-- OOM cannot stop the script.
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

-- Whether an owner has a name; with `reads`, whether it may read the name.
local function has(name, its_readers, owner, reads)
  -- pcall: a key of another type is an answer here, not an error.
  local held = redis.pcall('hget', name, owner)
  -- A count of 0 means that the owner has left the name, and that it stays locked for a while (see retain.lua).
  if type(held) == 'string' then return held ~= '0' end
  -- Readers count only if the name is read.
  return reads and reading().read_until(name) and type(redis.pcall('zscore', its_readers, owner)) == 'string'
end

local function extend(first, names, fences, owner, count, lease, token, top, raise, mode)
  local last, absent, reads = first + 2 * names - 1, false, mode == 'r'
  -- Index before the first name's readers.
  local behind = last + fences
  for n = 1, names do
    local name, mark = KEYS[first + 2 * n - 2], KEYS[first + 2 * n - 1]
    if not has(name, KEYS[behind + 3 * n - 2], owner, reads) then
      if tonumber(redis.call('zscore', mark, owner) or 0) > now then
        local force = last_force(mark)
        return force and {-1, unpack(force)} or -1
      end
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
      -- The TTL first, as above. The TTL is only ever raised.
      redis.call('pexpire', name, math.max(redis.call('pttl', name), lease))
      redis.call('hset', name, owner, count)
    end
  end
  local pool = pool_of(owner, KEYS[first])
  local permits = pool and beside(pool, 'multilock_permits')
  -- pcall: nothing of the hold depends on it.
  if permits and redis.call('pttl', permits) < lease then redis.pcall('pexpire', permits, lease) end
  local its = caption_of(owner)
  if its then
    local is_raised = raise == '1' and higher
    caption(its, nil, is_raised and token, lease)
    for n = 1, is_raised and names or 0 do publish(owner, KEYS[first + 2 * n - 1], 'granted') end
  end
  if not higher then return 3 end
  local keep_up = fences > 0 and fencing().keep_up
  for i = last + 1, last + fences do
    -- A spoilt fence stays as it is: it keeps all other clients out, and the hold is older than the damage.
    keep_up(KEYS[i], top, clock)
  end
  return 1
end

local answers, first = {stamp}, 1
for i = 2, #ARGV, 8 do
  local names, token, mode = tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 7]
  local fences = token == '0' and 0 or names
  local answer =
    extend(first, names, fences, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), token, ARGV[i + 5], ARGV[i + 6], mode)
  -- Only a hold that has its own call raises its fences.
  if type(answer) == 'table' and answer.err then return answer end
  answers[#answers + 1] = answer
  first = first + (mode == 'r' and 5 or 2) * names + fences
end
return answers
