-- release: give up every name that an owner holds here, and call who waits.
--
-- One hold:
-- KEYS  for each name: the name, its queue, its beats; when it leaves a token, for each name: its fence; and for a
--       read/write lock, for each name: its readers, the owner's time-out
-- ARGV  rw for a read/write lock, and no such word for any other; owner field, the last token of its block (0 when it
--       is to leave none), a channel for each name, and where somebody is to stand in the queues: waiter, ticket, and 1
--       where it asks next over the same connection
--       The waiter, as in acquire.lua, stands in the queues from then on. It is one that needs no call: its attempt is
--       rolled back, or it asks next.
-- Returns
--   1                      the owner held every name and has given it up
--   2                      the same, and clients of other libraries listen for that
--   {names}                the owner held so many of the names and has given them up
--
-- Many holds, of owners who do not know of each other:
-- KEYS  those of each hold, one after the other
-- ARGV  0, then for each hold: owner field, the last token, number of names, rw or an empty word, channels
-- Returns an array: for each hold what it would have returned alone, or its error.
--
-- Atomic, because between the look and the delete the name may have passed to somebody else. It
-- deletes first, so it works on a master that is out of memory, and may be sent any number of times.
-- The fence is left at the token or above, also on a master that had not accepted it; where the token is so old
-- that the floor is above it (see acquire.lua), nothing is stored. A hold whose token was not raised needs none: the
-- acquire stored it together with the field. The channels are those on which clients of Redisson's wait. How a name is
-- given up that is read or written depends on how it stands here: a downgrade may not have got here, or later than this.

-- Beside clients of other libraries, which ask when they hear of a release, ours come so many ms later: theirs have to
-- ask first, and would never get in before one that is called here.
local LATER = 2

-- The hold's first key, how many names it has, and what stands before its first channel.
local function release(key, names, channels, owner, top, is_rw, waiter, ticket, asks)
  local released, time, queue, others = 0, nil, nil, false
  for n = 1, names do
    local at = key + 3 * n - 3
    -- The look and the delete in one: a hash goes with its last field. A key of another type is not held;
    -- any other error is the answer, for the release to be tried again.
    local gone = redis.pcall('hdel', KEYS[at], owner)
    if gone == 1 then
      released = released + 1
      if top ~= '0' then
        -- pcall: a fence of another type is left as it is, and the other names are released all the same.
        local fence = KEYS[key + 3 * names + n - 1]
        local stored = redis.pcall('get', fence)
        local token = tonumber(top)
        if not stored or type(stored) == 'string' and (tonumber(stored) or token) < token then
          time = time or redis.call('time')
          -- Ten minutes more than the token is ahead of the clock, in ms.
          local left = math.ceil((token + 600000000 - (time[1] * 1000000 + time[2])) / 1000)
          if left > 0 then redis.pcall('set', fence, top, 'px', left) end
        end
      end
      -- For how long it is still read, whether that is less than before, and what clients of other libraries are told.
      local still, is_less, notice = 0, true, '0'
      if is_rw then
        if redis.call('hget', KEYS[at], 'mode') == 'read' then
          time = time or redis.call('time')
          local its_readers = key + (top == '0' and 3 or 4) * names + 2 * n - 2
          -- pcall: a key of another type has no readers.
          redis.pcall('zrem', KEYS[its_readers], owner)
          redis.call('del', KEYS[its_readers + 1])
          local now = time[1] * 1000 + math.floor(time[2] / 1000)
          still, is_less = readers().settle(KEYS[at], KEYS[its_readers], now)
          notice = is_less and '0'
        else
          redis.call('del', KEYS[at])
          notice = '1'
        end
      end
      -- pcall: an ACL may deny the channel. Monitors, which listen by a pattern, do not wait for the name.
      local listeners = notice and redis.pcall('publish', ARGV[channels + n], notice)
      if type(listeners) == 'number' and listeners > 0 then
        listeners = redis.pcall('pubsub', 'numsub', ARGV[channels + n])[2] or 0
        -- Nobody has a turn at what is still read.
        others = others or still == 0 and listeners > 0
      end
      if waiter or redis.call('exists', KEYS[at + 1]) == 1 then
        time, queue = time or redis.call('time'), queue or queues()
        local now, here = time[1] * 1000 + math.floor(time[2] / 1000), ''
        if waiter then
          local number, name = string.match(waiter, '^([^ ]*) ?(%d*)$')
          if name == '' or tonumber(name) == n then
            here = string.match(owner, '^(.*):') .. ':' .. number
            queue.stand(KEYS[at + 1], KEYS[at + 2], now, here, ticket, asks == '1')
          end
        end
        if still == 0 then
          queue.call_head(KEYS[at], KEYS[at + 1], KEYS[at + 2], now, here, others and not waiter and LATER)
        elseif is_less then
          queue.tell_head(KEYS[at], KEYS[at + 1], KEYS[at + 2], now, still)
        end
      end
    elseif gone ~= 0 and not string.find(gone['err'], 'WRONGTYPE', 1, true) then
      return gone
    end
  end
  if released == names then return others and 2 or 1 end
  return {released}
end

if ARGV[1] ~= '0' then
  local is_rw = ARGV[1] == 'rw'
  local at = is_rw and 2 or 1
  local names = #KEYS / ((ARGV[at + 1] == '0' and 3 or 4) + (is_rw and 2 or 0))
  local behind = at + 1 + names
  return release(1, names, at + 1, ARGV[at], ARGV[at + 1], is_rw, ARGV[behind + 1], ARGV[behind + 2], ARGV[behind + 3])
end

local answers, key, at = {}, 1, 2
while at <= #ARGV do
  local top, names, is_rw = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3] == 'rw'
  answers[#answers + 1] = release(key, names, at + 3, ARGV[at], top, is_rw)
  key = key + names * ((top == '0' and 3 or 4) + (is_rw and 2 or 0))
  at = at + 4 + names
end
return answers
