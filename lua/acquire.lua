-- acquire: take every name for one owner, all or nothing on this master, or stand in their queues.
--
-- KEYS  for each name: the name, its revocation mark, its deadlines; for each name: its fence; for each name: its queue; for
--       a read/write lock, for each name: its readers; and when the answer is to repeat the master's record
--       (introduce.lua): that
-- ARGV  owner field, hold count, lease in ms, 1 when the record is given or 0, waiter or nothing, ticket, and when fenced:
--       token, the last token of its block, 1 when
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
-- or an error, and nothing was written. It begins with FENCE: a fence is spoilt, until somebody deletes its key. Or with
-- FENCED: no token was sent, and others lock a name with tokens.
-- Highest is the largest fence of any of the names before, in decimal digits, and stamp is the master's wall
-- clock in microseconds, with a record: as digits, a space, and what it says.
--
-- A fence is what a token must be above: what is stored, or the floor where nothing is: the clock less five
-- minutes. What is stored is the last token of the block that was accepted last, until the clock is ten minutes
-- past it. From then on the floor is above it by five minutes, by which the clock may be set back.
--
-- A name that is written has the mode write beside its owner, and one that is read stands as readers.lua says. What is
-- read lasts as long as the longest lease of its readers. Whoever reads shares the token that is stored; where there is
-- none, its own or the floor is stored, whichever is larger.
--
-- Atomic, because the look and the write must not be parted, and a lock on several names must never
-- stand half-taken. Sent again it grants again and counts nothing twice: the count is absolute. The
-- token counts only together with the grant, so it moves in the same script. A queue only ever adds refusals.

local call = redis.call
local owner, count, lease, token, top = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[7]), ARGV[8]
local declared = ARGV[9] == '1'
-- In microseconds: how far the floor is below the clock, how long a fence lives after its token, and how far
-- above the clock it may be.
local BELOW, LIFE, ABOVE = 300000000, 600000000, 86400000000
local recorded = ARGV[4] == '1'
local mode = ARGV[token and 10 or 7]
local names = (#KEYS - (recorded and 1 or 0)) / (mode and 6 or 5)
local last = 3 * names
-- Before the fence, the queue and the readers of the first name.
local fences = last
local queues_at = fences + names
local readers_at = queues_at + names
local shared = mode == 'r'

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = call('time')
local clock = time[1] * 1000000 + time[2]
local stamp = clock
if recorded then
  -- pcall: a key of another type is no record.
  local record = redis.pcall('get', KEYS[#KEYS])
  stamp = string.format('%.0f ', stamp) .. (type(record) == 'string' and record or '')
end

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

local now = math.floor(clock / 1000)
-- The common cases in one look: nobody holds any name or waits for it, and nobody was forced out of one; or one name is
-- read by others. What the other cases need is defined there, so that the common ones do not pay for it. Without a token a
-- fence is in the way, too.
local found, beside
local looked_at = token and last or fences + names
if shared and names == 1 then
  found = call('exists', unpack(KEYS, 2, looked_at))
  local last = found == 0 and redis.pcall('hget', KEYS[1], 'multilock')
  beside = type(last) == 'string'
  if beside then
    local ends, its_readers = now + lease, KEYS[readers_at + 1]
    -- pcall: a key of another type has no readers.
    local added = redis.pcall('zadd', its_readers, 'nx', ends, owner) == 1
    last = tonumber(last)
    if not added then
      readers().join(KEYS[1], its_readers, owner, ends, last, now)
    elseif ends > last then
      local reading = readers()
      reading.tidy(its_readers, last, now)
      reading.last_until(KEYS[1], its_readers, ends)
    elseif call('zcard', its_readers) == 1 then
      -- Whoever has come in before, and reads until then, is lost.
      readers().lose(its_readers, last)
      call('pexpireat', its_readers, last)
    end
  else
    found = found + call('exists', KEYS[1])
  end
else
  found = call('exists', unpack(KEYS, 1, looked_at))
end
-- How many wait, and the smallest ticket of theirs.
local waiting, first
if found > 0 then
  for i = fences + 1, token and fences or fences + names do
    if call('exists', KEYS[i]) == 1 then
      return redis.error_reply('FENCED ' .. KEYS[i] .. ' is there: others take this lock with fencing tokens')
    end
  end
end

if found == 0 and not mode then
  for i = 1, last, 3 do
    -- The field first: under OOM the script stops here, before anything is written.
    call('hset', KEYS[i], owner, count)
    call('pexpire', KEYS[i], lease)
  end
elseif found == 0 and not beside and shared then
  for n = 1, names do readers().begin(KEYS[3 * n - 2], KEYS[readers_at + n], owner, now + lease) end
elseif found == 0 and not beside then
  for i = 1, last, 3 do
    local name = KEYS[i]
    call('hset', name, 'mode', 'write', owner, count)
    call('pexpire', name, lease)
    -- Whoever has read it before does so no longer.
    call('del', KEYS[readers_at + (i + 2) / 3])
  end
elseif not beside then
  local queues, reading = queues(), readers()
  for i = 2, last, 3 do
    if tonumber(call('zscore', KEYS[i], owner) or 0) > now then return {stamp, -1} end
  end

  local waiter, only, ticket = '', 0, tonumber(ARGV[6])
  if ARGV[5] ~= '' then
    local number, name = string.match(ARGV[5], '^([^ ]*) ?(%d*)$')
    waiter, only = string.match(owner, '^(.*):') .. ':' .. number, tonumber(name) or 0
  end

  -- The TTL of each name, and the end of its readers' last lease.
  local lefts, lasts = {}, {}
  -- The names come free together when the last of them does.
  local causes, refused_for = {}, nil
  local one
  local function refuse(left)
    if refused_for == nil or (refused_for ~= -1 and (left == -1 or left > refused_for)) then refused_for = left end
  end
  for n = 1, names do
    local key = KEYS[3 * n - 2]
    local left = call('pttl', key)
    causes[n], lefts[n] = '-', left
    if left ~= -2 then
      lasts[n] = mode and reading.read_until(key)
      -- What the owner has is open to it, but for writing what it has come to read: its field is gone then.
      local is_open = shared and lasts[n] or redis.pcall('hexists', key, owner) == 1
      if not is_open then
        local of_ours
        causes[n], of_ours = queues.holder(key, KEYS[queues_at + n])
        one = one or of_ours
        refuse(left)
      end
    end
  end
  for n = 1, ticket > 0 and names or 0 do
    -- Where nobody holds, it matters at once whether whoever is ahead is still there.
    local ahead = shared and queues.first_alone or queues.head
    local first, its, deadline = ahead(KEYS[queues_at + n], KEYS[3 * n], now, causes[n] == '-' and waiter)
    if first and first ~= waiter and queues.is_before(its, first, ticket, waiter) then
      causes[n] = causes[n] == '-' and 'a' or string.upper(causes[n])
      refuse(deadline - now)
    end
  end

  if refused_for ~= nil then
    for n = 1, names do
      local name, queue, deadlines = KEYS[3 * n - 2], KEYS[queues_at + n], KEYS[3 * n]
      local here, changes = '', causes[n] == 'a'
      if waiter ~= '' and (only == 0 or only == n) then
        queues.stand(queue, deadlines, now, waiter, ARGV[6])
        here = waiter
      elseif waiter ~= '' and queues.drop(queue, deadlines, waiter) then
        changes = true
      end
      -- Nobody else would call the one ahead, after the end of a lease or the release of another library.
      local is_read = changes and reading.read_until(name)
      if is_read or changes and (causes[n] == '-' or causes[n] == 'a') then
        queues.call_head(name, queue, deadlines, now, here, nil, is_read)
      end
    end
    local told = table.concat(causes)
    return {stamp, 0, refused_for, told, one and label_of(one) or '', token and string.format('%.0f', highest) or nil}
  end

  local counted, smallest = 0, nil
  for n = 1, names do
    local name, queue, deadlines = KEYS[3 * n - 2], KEYS[queues_at + n], KEYS[3 * n]
    local _, rank
    if waiter ~= '' then _, rank = queues.drop(queue, deadlines, waiter) end
    -- The one behind has not been told of this lease yet.
    queues.tell_head(name, queue, deadlines, now, math.max(lefts[n], tonumber(lease)))
    -- Nobody else would call those who may read, too, after the end of a lease.
    if shared and (rank or not lasts[n]) then queues.call_next(name, queue, deadlines, now, rank or 0) end
    local behind, its = queues.waiting(queue)
    if its then
      counted = counted + behind
      smallest = math.min(smallest or its, its)
    end
  end
  if smallest then waiting, first = counted, string.format('%.0f', smallest) end

  for n = 1, names do
    local key, left, its_readers = KEYS[3 * n - 2], lefts[n], KEYS[readers_at + n]
    if left == -2 and shared then
      reading.begin(key, its_readers, owner, now + lease)
    elseif left == -2 then
      -- The field first, as above.
      call('hset', key, owner, count, unpack(mode and {'mode', 'write'} or {}))
      call('pexpire', key, lease)
      if mode then call('del', its_readers) end
    elseif not shared then
      -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
      call('pexpire', key, math.max(left, tonumber(lease)))
      call('hset', key, owner, count)
    elseif lasts[n] then
      reading.join(key, its_readers, owner, now + lease, lasts[n], now)
    else
      -- This master was not told that its owner only reads: it has lasted for so long.
      reading.turn(key, its_readers, owner, tonumber(lease))
    end
  end
end

local granted = waiting and {stamp, 1, waiting, first} or stamp
if not token then return granted end
if shared and not declared then
  if absent then highest = math.max(highest, token) end
  local told, left = string.format('%.0f', highest), math.ceil((highest + LIFE - clock) / 1000)
  for i = fences + 1, (absent or names > 1) and fences + names or fences do
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
