-- release: give up every name that an owner holds here, and call who waits.
--
-- One hold:
-- KEYS  for each name: the name, its queue, its deadlines; when it leaves a token, for each name: its fence; and for a
--       read/write lock, for each name: its readers
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
-- Who reads beside another with a later lease only leaves the set of the readers: nothing else depends on it then.

-- Beside clients of other libraries, which ask when they hear of a release, ours come so many ms later: theirs have to
-- ask first, and would never get in before one that is called here.
local LATER = 2

-- Takes an owner from those that read a name: 1 when it was one of them. Then for how many ms it is still read, if the
-- last lease of theirs was its own, and whether that is less than before.
local function leave_readers(name, its_readers, owner)
  -- pcall: a key of another type has no readers.
  local some = redis.pcall('zrange', its_readers, -2, -1)
  local last = some[#some]
  if not last then return 0 end
  if last ~= owner then return redis.call('zrem', its_readers, owner) end
  -- The common case of one that is alone: for others that are lost there would be somebody.
  if not some[2] and type(redis.pcall('hget', name, 'multilock')) == 'string' then
    redis.call('del', name, its_readers)
    return 1, 0
  end
  local time = redis.call('time')
  local still, is_less = readers().leave(name, its_readers, owner, time[1] * 1000 + math.floor(time[2] / 1000))
  return still and 1 or 0, still, is_less
end

-- The hold's first key, how many names it has, and what stands before its first channel.
local function release(key, names, channels, owner, top, is_rw, waiter, ticket, asks)
  local released, time, queue, others = 0, nil, nil, false
  for n = 1, names do
    local at = key + 3 * n - 3
    -- For how long it is still read by others, where that is known to have changed, and whether that is less than before.
    local gone, still, is_less = 0, 0, false
    if is_rw then
      gone, still, is_less = leave_readers(KEYS[at], KEYS[key + (top == '0' and 3 or 4) * names + n - 1], owner)
    end
    -- What clients of other libraries are told.
    local notice = '0'
    if gone == 0 then
      -- The look and the delete in one: a hash goes with its last field. A key of another type is not held;
      -- any other error is the answer, for the release to be tried again.
      gone, still = redis.pcall('hdel', KEYS[at], owner), 0
      if is_rw and gone == 1 then
        redis.call('del', KEYS[at])
        notice = '1'
      end
    end
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
      if still == 0 then
        -- pcall: an ACL may deny the channel. Monitors, which listen by a pattern, do not wait for the name.
        local listeners = redis.pcall('publish', ARGV[channels + n], notice)
        if type(listeners) == 'number' and listeners > 0 then
          listeners = redis.pcall('pubsub', 'numsub', ARGV[channels + n])[2] or 0
          others = others or listeners > 0
        end
      end
      if waiter or (still == 0 or is_less) and redis.call('exists', KEYS[at + 2]) == 1 then
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
  local names = #KEYS / ((ARGV[at + 1] == '0' and 3 or 4) + (is_rw and 1 or 0))
  local behind = at + 1 + names
  return release(1, names, at + 1, ARGV[at], ARGV[at + 1], is_rw, ARGV[behind + 1], ARGV[behind + 2], ARGV[behind + 3])
end

local answers, key, at = {}, 1, 2
while at <= #ARGV do
  local top, names, is_rw = ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3] == 'rw'
  answers[#answers + 1] = release(key, names, at + 3, ARGV[at], top, is_rw)
  key = key + names * ((top == '0' and 3 or 4) + (is_rw and 1 or 0))
  at = at + 4 + names
end
return answers
