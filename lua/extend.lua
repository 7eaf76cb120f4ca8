-- extend: raise the time to live of what some owners hold. Creates no hold.
--
-- KEYS  for each hold: name 1, revocation mark 1, ..., and when it is fenced: fence 1, fence 2, ...;
--       after them the charter, and when the master's memory is marked: its marker
-- ARGV  ms that a fence lives, 1 when the memory is marked or 0, longest lease in ms that the client
--       reckons with, then for each hold: owner field, hold
--       count, lease in ms, number of names, token (0 when it is not fenced), 1 to raise the fence or 0
--       to keep it up
-- Returns {stamp, answer 1, answer 2, ...}; stamp is the master's wall clock in microseconds, with a
-- marker: as digits, a space, and what it says. The answer for each hold is
--   1                        continued: every name was held, none has less than the lease left; if the
--                            fence was to be raised, the token was above all that was stored
--   3                        continued, but the token was not above all that was stored
--   2                        absent: a name is free here; nothing was written
--   {0, ms left, type}       another holds a name; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written
-- or {stamp, -2, longest} for all of them: others may have longer leases than the client reckons with, up
-- to so many ms; nothing was written
--
-- Many holds in one call, because a process renews all of its holds together. Atomic, because a name
-- may expire between the look and the write. It never creates a hold: one that arrives after the
-- unlock must not leave an orphan. The fence moves only while the owner holds: a raise that strays
-- onto a master where another holds must not outdo that other's token.

local retention, marked = ARGV[1], ARGV[2] == '1'

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = redis.call('time')
local stamp, now = time[1] * 1000000 + time[2], time[1] * 1000 + time[2] / 1000
if marked then stamp = string.format('%.0f ', stamp) .. (redis.call('get', KEYS[#KEYS]) or '') end

-- Who does not know how long others may hold cannot tell whose votes count.
local agreed = redis.call('get', KEYS[marked and #KEYS - 1 or #KEYS])
if agreed then
  local longest = tonumber(string.match(agreed, '^%d+')) or 0
  if longest > tonumber(ARGV[3]) then return {stamp, -2, string.format('%.0f', longest)} end
end

-- What a fence has stored. What is no number that a script handles exactly stands for the largest
-- that is: nothing is ever above it.
local function stored(key)
  local number = tonumber(redis.call('get', key) or 0)
  if number and number >= 0 and number <= 9007199254740991 then return number end
  return 9007199254740991
end

-- Makes the fences at least the token; whether the token was above all of them.
local function fence(first, last, digits)
  local token, above = tonumber(digits), true
  for i = first, last do
    if stored(KEYS[i]) < token then
      redis.call('set', KEYS[i], digits, 'px', retention)
    else
      above = false
      redis.call('pexpire', KEYS[i], retention)
    end
  end
  return above
end

local function extend(first, names, fences, owner, count, lease, token, raise)
  local last, absent = first + 2 * names - 1, false
  for i = first, last, 2 do
    -- pcall: a key of another type is an answer here, not an error.
    if redis.pcall('hexists', KEYS[i], owner) ~= 1 then
      if tonumber(redis.call('zscore', KEYS[i + 1], owner) or 0) > now then return -1 end
      local left = redis.call('pttl', KEYS[i])
      if left ~= -2 then return {0, left, redis.call('type', KEYS[i])['ok']} end
      absent = true
    end
  end
  if absent then return 2 end
  for i = first, last, 2 do
    -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    redis.call('hset', KEYS[i], owner, count)
  end
  local above = fence(last + 1, last + fences, token)
  return raise == '1' and not above and 3 or 1
end

local answers, first = {stamp}, 1
for i = 4, #ARGV, 6 do
  local names, token = tonumber(ARGV[i + 3]), ARGV[i + 4]
  local fences = token == '0' and 0 or names
  answers[#answers + 1] =
    extend(first, names, fences, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), token, ARGV[i + 5])
  first = first + 2 * names + fences
end
return answers
