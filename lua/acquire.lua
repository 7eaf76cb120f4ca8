-- acquire: take every name for one owner, all or nothing on this master, or stand in their queues.
--
-- KEYS  for each name: the name, its revocation mark, its queue; then the charter; for each name: its beats;
--       for each name: its fence; for a read/write lock, for each name: its readers, the owner's time-out; and when the
--       master's memory is marked: its marker
-- ARGV  owner field, hold count, lease in ms, 1 when the memory is marked or 0, longest lease in ms that the
--       client reckons with, waiter or nothing, ticket, and when fenced: token, the last token of its block, 1 when
--       the token was accepted before, for a hold that is taken again, or 0; and for a read/write lock: w or r
--       The waiter is its number, a colon and the ms that it needs to come; after a space, the one name, counted
--       from 1, in whose queue alone it is to stand. Without a waiter nobody is let into a queue. The ticket is in
--       microseconds: whoever stands in a queue with a smaller one comes first; 0 passes them all.
-- Returns
--   stamp                         granted: the owner's field stands under every name, and the token, if there
--                                 is one, was accepted: it is above every fence, or was accepted before
--   {stamp, 1, waiting, first}    the same, and so many wait for the names, the first of them with this ticket
--   {stamp, 3, highest[, waiting, first]}  granted, but the token is not above every fence; or granted to read, with
--                                 the token that is stored now
--   {stamp, 0, ms left, causes, label[, highest]}  refused, and the waiter stands in the queues (ms left is -1 without
--                                 a TTL). One cause for each name: - none; a somebody waits with a smaller ticket;
--                                 o a hold of this crate's, h a field that is another library's, s a key of
--                                 another type; in capitals where somebody waits with a smaller ticket, too. The
--                                 label is what the client of a holder calls itself, or nothing
--   {stamp, -1}                   revoked: this owner was forced out; nothing was written
--   {stamp, -2, longest}          others may have longer leases than the client reckons with, up to so many ms;
--                                 nothing was written
-- or an error, and nothing was written. It begins with FENCE: a fence is spoilt, until somebody deletes its key. Or with
-- FENCED: no token was sent, and others lock a name with tokens.
-- Highest is the largest fence of any of the names before, in decimal digits, and stamp is the master's wall
-- clock in microseconds, with a marker: as digits, a space, and what it says.
--
-- A fence is what a token must be above: what is stored, or the floor where nothing is: the clock less five
-- minutes. What is stored is the last token of the block that was accepted last, until the clock is ten minutes
-- past it. From then on the floor is above it by five minutes, by which the clock may be set back.
--
-- A read/write lock is laid out as Redisson's: beside its owners a name has the mode, write or read, and each reader a
-- time-out key of its own. Beside that stand the readers of this crate, each by the ms of this master's clock at which
-- its lease ends. What is read lasts as long as the longest of them. Whoever reads shares the token that is stored; where
-- there is none, its own or the floor is stored, whichever is larger.
--
-- Atomic, because the look and the write must not be parted, and a lock on several names must never
-- stand half-taken. Sent again it grants again and counts nothing twice: the count is absolute. The
-- token counts only together with the grant, so it moves in the same script. A queue only ever adds refusals.

local call = redis.call
local owner, count, lease, token, top = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[8]), ARGV[9]
local declared = ARGV[10] == '1'
-- In microseconds: how far the floor is below the clock, how long a fence lives after its token, and how far
-- above the clock it may be.
local BELOW, LIFE, ABOVE = 300000000, 600000000, 86400000000
local marked = ARGV[4] == '1'
local mode = ARGV[token and 11 or 8]
local names = (#KEYS - (marked and 2 or 1)) / (mode and 7 or 5)
local last = 3 * names
local charter = last + 1
local fences = charter + names
local shared = mode == 'r'

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = call('time')
local clock = time[1] * 1000000 + time[2]
local stamp = clock
if marked then stamp = string.format('%.0f ', stamp) .. (call('get', KEYS[#KEYS]) or '') end

-- The largest fence, and whether one is absent. A token that was accepted before is below the floor at times, and
-- counts all the same.
local highest, absent = 0, false
for i = fences + 1, token and fences + names or fences do
  -- pcall: a key of another type is spoilt, too.
  local stored = redis.pcall('get', KEYS[i])
  local fence = clock - BELOW
  if stored then
    fence = type(stored) == 'string' and tonumber(stored)
    if not (fence and fence >= 0 and fence <= clock + ABOVE) and not declared then
      return redis.error_reply(
        'FENCE ' .. KEYS[i] .. ' holds no token of the last day or earlier, by this clock; DEL it')
    end
  end
  absent = absent or not stored
  if fence and fence > highest then highest = fence end
end

-- The common case in one look: nobody holds any name or waits for it, nobody was forced out of one, and no
-- lease is so long that clients had to agree upon it. What the other cases need is defined there, so that the
-- common one does not pay for it. Without a token a fence is in the way, too.
local found = call('exists', unpack(KEYS, 1, token and charter or fences + names))
-- How many wait, and the smallest ticket of theirs.
local waiting, first
-- The TTL of each name, where it is known.
local lefts
-- Who finds nothing but readers goes in beside them.
local beside
if shared and found == names then
  lefts = {}
  for n = 1, names do
    -- pcall: a key of another type is not read.
    if redis.pcall('hget', KEYS[3 * n - 2], 'mode') ~= 'read' then break end
    lefts[n] = call('pttl', KEYS[3 * n - 2])
  end
  beside = #lefts == names
end
if found > 0 and not beside then
  for i = fences + 1, token and fences or fences + names do
    if call('exists', KEYS[i]) == 1 then
      return redis.error_reply('FENCED ' .. KEYS[i] .. ' is there: others take this lock with fencing tokens')
    end
  end
  local agreed = call('get', KEYS[charter])
  if agreed then
    -- Who does not know how long others may hold cannot tell whose votes count.
    local longest = tonumber(string.match(agreed, '^%d+')) or 0
    if longest > tonumber(ARGV[5]) then return {stamp, -2, string.format('%.0f', longest)} end
    found = found - 1
  end
end

if found == 0 and not mode then
  for i = 1, last, 3 do
    -- The field first: under OOM the script stops here, before anything is written.
    call('hset', KEYS[i], owner, count)
    call('pexpire', KEYS[i], lease)
  end
else
  local now = math.floor(clock / 1000)
  -- Before the readers of the first name.
  local readers = fences + names
  if found > 0 and not beside then
    local queues = queues()
    for i = 2, last, 3 do
      if tonumber(call('zscore', KEYS[i], owner) or 0) > now then return {stamp, -1} end
    end

    local waiter, only, ticket = '', 0, tonumber(ARGV[7])
    if ARGV[6] ~= '' then
      local number, name = string.match(ARGV[6], '^([^ ]*) ?(%d*)$')
      waiter, only = string.match(owner, '^(.*):') .. ':' .. number, tonumber(name) or 0
    end

    -- The names come free together when the last of them does.
    local causes, refused_for = {}, nil
    local one
    lefts = {}
    local function refuse(left)
      if refused_for == nil or (refused_for ~= -1 and (left == -1 or left > refused_for)) then refused_for = left end
    end
    for n = 1, names do
      local key = KEYS[3 * n - 2]
      local left = call('pttl', key)
      causes[n], lefts[n] = '-', left
      if left ~= -2 then
        -- What the owner has is open to it, but for writing what it has come to read.
        local is_open = shared and queues.is_read(key)
          or redis.pcall('hexists', key, owner) == 1 and (shared or not queues.is_read(key))
        if not is_open then
          local of_ours
          causes[n], of_ours = queues.holder(key, mode and KEYS[readers + 2 * n - 1])
          one = one or of_ours
          refuse(left)
        end
      end
    end
    for n = 1, ticket > 0 and names or 0 do
      -- Where nobody holds, it matters at once whether whoever is ahead is still there.
      local ahead = shared and queues.first_exclusive or queues.head
      local first, its, beat = ahead(KEYS[3 * n], KEYS[charter + n], now, causes[n] == '-' and waiter)
      if first and first ~= waiter and (its < ticket or its == ticket and first < waiter) then
        causes[n] = causes[n] == '-' and 'a' or string.upper(causes[n])
        refuse(beat - now)
      end
    end

    if refused_for ~= nil then
      for n = 1, names do
        local name, queue, beats = KEYS[3 * n - 2], KEYS[3 * n], KEYS[charter + n]
        local is_free = causes[n] == '-' or causes[n] == 'a'
        if waiter ~= '' and (only == 0 or only == n) then
          queues.stand(queue, beats, now, waiter, ARGV[7])
          -- Nobody else would call the one ahead, after the end of a lease or the release of another library.
          if causes[n] == 'a' then queues.call_head(name, queue, beats, now, waiter, nil, queues.is_read(name)) end
        else
          local stood = waiter ~= '' and redis.pcall('zrem', queue, waiter) == 1
          if stood then redis.pcall('zrem', beats, waiter) end
          if stood or causes[n] == 'a' then
            local is_read = queues.is_read(name)
            if is_free or is_read then queues.call_head(name, queue, beats, now, '', nil, is_read) end
          end
        end
      end
      local told = table.concat(causes)
      return {stamp, 0, refused_for, told, one and label_of(one) or '', token and string.format('%.0f', highest) or nil}
    end

    local counted, smallest = 0, nil
    for n = 1, names do
      local i = 3 * n - 2
      if waiter ~= '' then queues.drop(KEYS[i + 2], KEYS[charter + n], waiter) end
      -- The one behind has not been told of this lease yet.
      queues.tell_head(KEYS[i], KEYS[i + 2], KEYS[charter + n], now, math.max(lefts[n], tonumber(lease)))
      -- Nobody else would call those who may read, too, after the end of a lease.
      if shared then queues.call_head(KEYS[i], KEYS[i + 2], KEYS[charter + n], now, waiter, nil, true) end
      local behind, its = queues.front(KEYS[i + 2])
      if behind then
        counted = counted + call('zcard', KEYS[i + 2])
        smallest = math.min(smallest or its, its)
      end
    end
    if smallest then waiting, first = counted, string.format('%.0f', smallest) end
  end

  for n = 1, names do
    local key = KEYS[3 * n - 2]
    local left = lefts and lefts[n] or -2
    local its_readers, until_ms = KEYS[readers + 2 * n - 1], now + lease
    if left == -2 then
      -- The field first: under OOM the script stops here, before anything is written.
      if mode then
        call('hset', key, 'mode', shared and 'read' or 'write', owner, count)
        if shared then call('del', its_readers) end
      else
        call('hset', key, owner, count)
      end
      left = tonumber(lease)
      call('pexpire', key, lease)
    else
      -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
      if left >= 0 or not shared then
        left = math.max(left, tonumber(lease))
        call('pexpire', key, left)
      end
      local is_new = call('hset', key, owner, count) == 1
      if shared and not is_new then
        if call('hget', key, 'mode') == 'read' then
          -- pcall, here and below: a key of another type has no readers, and must not stop a script that has written.
          local its = redis.pcall('zscore', its_readers, owner)
          if type(its) == 'string' then until_ms = math.max(until_ms, tonumber(its)) end
        else
          -- This master was not told that its owner only reads: it has lasted for so long.
          call('hset', key, 'mode', 'read')
          call('del', its_readers)
          until_ms = now + left
        end
      end
    end
    if shared then
      local added = redis.pcall('zadd', its_readers, until_ms, owner)
      if type(added) == 'table' then
        call('del', its_readers)
        call('zadd', its_readers, until_ms, owner)
      end
      -- Some of those whose lease has ended go, lest they pile up where others read on.
      for _ = 1, lefts and 64 or 0 do
        local oldest = call('zrange', its_readers, 0, 0, 'withscores')
        if not oldest[1] or tonumber(oldest[2]) > now then break end
        call('zrem', its_readers, oldest[1])
        call('hdel', key, oldest[1])
      end
      call('pexpire', its_readers, math.max(left, until_ms - now))
      call('set', KEYS[readers + 2 * n], 1, 'px', until_ms - now)
    end
  end
end

local granted = waiting and {stamp, 1, waiting, first} or stamp
if not token then return granted end
if shared and not declared then
  if absent then highest = math.max(highest, token) end
  local told, left = string.format('%.0f', highest), math.ceil((highest + LIFE - clock) / 1000)
  for i = fences + 1, fences + names do
    if (tonumber(call('get', KEYS[i]) or 0) or 0) < highest then call('set', KEYS[i], told, 'px', left) end
  end
  return {stamp, 3, told, waiting, first}
end
if token <= highest and not declared then return {stamp, 3, string.format('%.0f', highest), waiting, first} end
-- Whole milliseconds, none of them too few.
local left = math.ceil((top + LIFE - clock) / 1000)
for i = fences + 1, fences + names do
  -- What was accepted before may be below what is stored by now, or so old that the floor is above it.
  local stored = declared and redis.pcall('get', KEYS[i])
  local below = not stored or type(stored) == 'string' and (tonumber(stored) or token) < token
  if below and left > 0 then call('set', KEYS[i], top, 'px', left) end
end
return granted
