-- release: give up every name that this owner holds here, and tell the waiters.
--
-- KEYS  name 1, name 2, ..., and when fenced: fence 1, fence 2, ...
-- ARGV  owner field, notify (1 or 0), token (0 when not fenced), ms that a fence lives,
--       channel 1, channel 2, ...
-- Returns
--   listeners              the owner held every name and has given it up
--   {names, listeners}     the owner held so many of the names and has given them up
-- where listeners is the most that a notice reached.
--
-- Atomic, because between the look and the delete the name may have passed to somebody else. It
-- deletes first, so it works on a master that is out of memory, and may be sent any number of times.
-- The fence is left at the token or above, also on a master that had not accepted it.

local owner, notify, token = ARGV[1], ARGV[2], ARGV[3]
local names = token == '0' and #KEYS or #KEYS / 2
local released, listeners = 0, 0
for i = 1, names do
  -- The look and the delete in one: a hash goes with its last field. A key of another type is not held;
  -- any other error is the answer, for the release to be tried again.
  local gone = redis.pcall('hdel', KEYS[i], owner)
  if gone == 1 then
    released = released + 1
    if token ~= '0' then
      -- pcall: a fence of another type is left as it is, and the other names are released all the same.
      -- What is no number that a script handles exactly stands for the largest that is.
      local stored = redis.pcall('get', KEYS[names + i]) or 0
      stored = tonumber(stored) or 9007199254740991
      if stored >= 0 and stored < tonumber(token) then
        redis.pcall('set', KEYS[names + i], token, 'px', ARGV[4])
      end
    end
    if notify == '1' then
      -- pcall: an ACL may deny the channel; waiters then wake by their timers.
      local reached = redis.pcall('publish', ARGV[4 + i], '0')
      if type(reached) == 'number' and reached > listeners then listeners = reached end
    end
  elseif gone ~= 0 and not string.find(gone['err'], 'WRONGTYPE', 1, true) then
    return gone
  end
end
if released == names then return listeners end
return {released, listeners}
