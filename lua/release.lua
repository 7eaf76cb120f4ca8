-- release: give up every name that an owner holds here, and tell the waiters.
--
-- One hold:
-- KEYS  name 1, name 2, ..., and when fenced: fence 1, fence 2, ...
-- ARGV  owner field, notify (1 or 0), the last token of its block (0 when not fenced), channel 1, channel 2, ...
-- Returns
--   listeners              the owner held every name and has given it up
--   {names, listeners}     the owner held so many of the names and has given them up
-- where listeners is the most that a notice reached.
--
-- Many holds, of owners who do not know of each other:
-- KEYS  those of each hold, one after the other
-- ARGV  0, then for each hold: owner field, notify, the last token, number of names, channels
-- Returns an array: for each hold what it would have returned alone, or its error.
--
-- Atomic, because between the look and the delete the name may have passed to somebody else. It
-- deletes first, so it works on a master that is out of memory, and may be sent any number of times.
-- The fence is left at the token or above, also on a master that had not accepted it; where the token is so old
-- that the floor is above it (see acquire.lua), nothing is stored.

-- The hold's first key, how many names it has, and what stands before its first channel.
local function release(key, names, channels, owner, notify, top)
  local released, listeners = 0, 0
  for i = 0, names - 1 do
    -- The look and the delete in one: a hash goes with its last field. A key of another type is not held;
    -- any other error is the answer, for the release to be tried again.
    local gone = redis.pcall('hdel', KEYS[key + i], owner)
    if gone == 1 then
      released = released + 1
      if top ~= '0' then
        -- pcall: a fence of another type is left as it is, and the other names are released all the same.
        local fence = KEYS[key + names + i]
        local stored = redis.pcall('get', fence)
        local token = tonumber(top)
        if not stored or type(stored) == 'string' and (tonumber(stored) or token) < token then
          local time = redis.call('time')
          -- Ten minutes more than the token is ahead of the clock, in ms.
          local left = math.ceil((token + 600000000 - (time[1] * 1000000 + time[2])) / 1000)
          if left > 0 then redis.pcall('set', fence, top, 'px', left) end
        end
      end
      if notify == '1' then
        -- pcall: an ACL may deny the channel; waiters then wake by their timers.
        local reached = redis.pcall('publish', ARGV[channels + 1 + i], '0')
        if type(reached) == 'number' and reached > listeners then listeners = reached end
      end
    elseif gone ~= 0 and not string.find(gone['err'], 'WRONGTYPE', 1, true) then
      return gone
    end
  end
  if released == names then return listeners end
  return {released, listeners}
end

if ARGV[1] ~= '0' then
  local names = ARGV[3] == '0' and #KEYS or #KEYS / 2
  return release(1, names, 3, ARGV[1], ARGV[2], ARGV[3])
end

local answers, key, at = {}, 1, 2
while at <= #ARGV do
  local top, names = ARGV[at + 2], tonumber(ARGV[at + 3])
  answers[#answers + 1] = release(key, names, at + 3, ARGV[at], ARGV[at + 1], top)
  key = key + names * (top == '0' and 1 or 2)
  at = at + 4 + names
end
return answers
