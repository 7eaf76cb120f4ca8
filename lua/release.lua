-- release: give up every name that an owner holds here, and call the next waiter.
--
-- One hold:
-- KEYS  for each name: the name, its deadlines; and for a read/write lock, for each name: its readers. A seat has the
--       deadlines of the name with the permits (permits.lua)
-- ARGV  rw for a read/write lock, and no such word for any other; owner field; to announce the release to clients of
--       Redisson's: the word announce and a channel for each name; and to put a waiter into the queues: waiter, ticket,
--       and 1 if it asks next over the same connection
--       The waiter, as in acquire.lua, is in the queues from then on. It needs no call: its attempt is rolled
--       back, or it asks next.
-- Returns
--   1                      the owner held every name and has given it up
--   2                      the same, and clients of Redisson's listen for the announcement
--   {names}                the owner held this number of the names and has given them up
--
-- Many holds, of owners that do not know of each other:
-- KEYS  those of each hold, one after the other
-- ARGV  0, then for each hold: owner field, number of names, rw or an empty word; to announce it: the word announce and
--       its channels
-- Returns an array: for each hold its own answer, or its error.
--
-- Atomic, because another owner may take the name between the look and the delete. The script deletes first, so it
-- works on a master that is out of memory. It may be sent any number of times.
--
-- Clients of Redisson's wait on the channels. Only clients with the option `beside_redisson` give channels. A name of
-- a read/write lock is given up as it is found here, read or written: a downgrade may not have arrived, or may arrive
-- later. A reader beside another with a later lease only is removed from the set of readers: nothing else depends on
-- it then.

-- Ms after which a waiter of this crate asks if clients of other libraries listen. Such clients ask once they get the
-- release. They have to ask first: behind a waiter that is called here they would never get in.
local LATER = 2

-- Takes an owner from the readers of a name. Returns 1 if it was one of them. If it had the last lease, also returns
-- the ms for which the name is still read, and whether they are fewer than before.
local function remove_reader(name, its_readers, owner)
  -- pcall: a key of another type has no readers.
  local last = redis.pcall('zrange', its_readers, -1, -1)[1]
  if not last then return 0 end
  if last ~= owner then return redis.call('zrem', its_readers, owner) end
  local time = redis.call('time')
  local still, is_less = readers().remove(name, its_readers, owner, time[1] * 1000 + math.floor(time[2] / 1000))
  return still and 1 or 0, still, is_less
end

-- The index before the first channel, if channels are given from `at` on.
local function channels_from(at)
  return ARGV[at] == 'announce' and at
end

-- Releases one hold: its first key, its number of names, and the index before its first channel, if it has channels.
local function release(key, names, channels, owner, is_rw, waiter, ticket, asks)
  local released, time, made, others = 0, nil, nil, false
  for n = 1, names do
    local at = key + 2 * n - 2
    -- The ms for which others still read the name, if they are known to have changed, and whether they are fewer than
    -- before.
    local gone, still, is_less = 0, 0, false
    if is_rw then
      gone, still, is_less = remove_reader(KEYS[at], KEYS[key + 2 * names + n - 1], owner)
    end
    -- The message to clients of other libraries.
    local notice = '0'
    if gone == 0 then
      -- Look and delete in one command: a hash goes with its last field. A key of another type is not held. Any other
      -- error is the answer, so that the client tries the release again.
      gone, still = redis.pcall('hdel', KEYS[at], owner), 0
      if is_rw and gone == 1 then
        redis.call('del', KEYS[at])
        notice = '1'
      end
    end
    if gone == 1 then
      released = released + 1
      if channels and still == 0 then others = announce(ARGV[channels + n], notice) or others end
      if waiter or (still == 0 or is_less) and redis.call('exists', KEYS[at + 1]) == 1 then
        time, made = time or redis.call('time'), made or queues()
        local name, deadlines, queue = KEYS[at], KEYS[at + 1], made.of(KEYS[at + 1])
        local now, here = time[1] * 1000 + math.floor(time[2] / 1000), ''
        if waiter then
          local number, only = string.match(waiter, '^([^ ]*) ?(%d*)$')
          if only == '' or tonumber(only) == n then
            here = string.match(owner, '^(.*):') .. ':' .. number
            made.enqueue(queue, deadlines, now, here, ticket, asks == '1')
          end
        end
        local pool = pool_of(owner, name)
        if pool then
          seats(made, pool).call_first(now, here, tonumber(string.match(name, '%d+$')))
        elseif still == 0 then
          made.call_head(name, queue, deadlines, now, here, others and not waiter and LATER)
        elseif is_less then
          made.tell_head(name, queue, deadlines, now, still)
        end
      end
    elseif gone ~= 0 and not string.find(gone['err'], 'WRONGTYPE', 1, true) then
      return gone
    end
  end
  local its = released > 0 and caption_of(owner)
  if its then
    redis.pcall('del', its)
    for n = 1, names do publish(owner, KEYS[key + 2 * n - 1], 'released') end
  end
  if released == names then return others and 2 or 1 end
  return {released}
end

if ARGV[1] ~= '0' then
  local is_rw = ARGV[1] == 'rw'
  local at = is_rw and 2 or 1
  local names = #KEYS / (is_rw and 3 or 2)
  local channels = channels_from(at + 1)
  local behind = channels and channels + names or at
  return release(1, names, channels, ARGV[at], is_rw, ARGV[behind + 1], ARGV[behind + 2], ARGV[behind + 3])
end

local answers, key, at = {}, 1, 2
while at <= #ARGV do
  local names, is_rw = tonumber(ARGV[at + 1]), ARGV[at + 2] == 'rw'
  local channels = channels_from(at + 3)
  answers[#answers + 1] = release(key, names, channels, ARGV[at], is_rw)
  key = key + names * (is_rw and 3 or 2)
  at = (channels and channels + names or at + 2) + 1
end
return answers
