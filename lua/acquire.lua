-- acquire: take every name for one owner, all or nothing on this master, or let its waiter into their queues.
--
-- KEYS  for each name: the name, its revocation mark, its deadlines; for each name: its fence; for a read/write lock,
--       for each name: its readers; and last the master's record (introduce.lua), if the answer is to repeat it
-- ARGV  owner field, lease in ms; and unless all that follow are left out:
--       the last token of a block of 64, a reader's only token, or an empty word for a call without a token;
--       options, a letter each: w or r for a read/write lock, d if a quorum has accepted the token before, m if the
--       master's record is given; behind them the number of tokens, for a block of more than 64; hold count (1); ticket
--       (behind all others); waiter (none, or an empty word); and the text of the hold's caption (captions.lua), for an
--       owner that has one
--       The waiter is its number, a colon and the ms that it needs to ask. If it is to be in the queue of one name
--       only, a space and the index of that name follow, from 1. Without a waiter the script adds none to a queue.
--       The ticket is in microseconds. A waiter with a smaller ticket comes first; the ticket 0 passes all waiters.
-- Returns
--   stamp                         granted: every name has the owner's field. The token, if there is one, was accepted:
--                                 it is above every fence, or was accepted before
--   {stamp, 1, waiting, first}    granted, with the number of waiters for the names, and their smallest ticket
--   {stamp, 3, highest[, waiting, first]}  granted, but the token is not above every fence; or granted to read, with
--                                 the token that is stored now
--   {stamp, 0, ms left, causes, label[, highest]}  refused, and the waiter is in the queues. Ms left is -1 without
--                                 a TTL. The label is that of a holder (labels.lua), or empty. One cause for each name:
--                                 -  none
--                                 a  another waiter has a smaller ticket
--                                 o  a hold of this crate's
--                                 i  such a hold, perhaps idle: then nobody holds it, and its client gives it up if asked
--                                 h  a field of another library
--                                 s  a key of another type
--                                 in capitals if another waiter has a smaller ticket, too
--   {stamp, -1}                   revoked: this owner was forced out; nothing was written
-- or an error, and nothing was written:
--   FENCE ...   a fence is spoilt, until its key is deleted
--   FENCED ...  the call has no token, and other clients lock a name with tokens
-- Highest is the largest fence of the names before the call. Stamp is the master's wall clock in
-- microseconds; with a record: the clock in digits, a space, and the record's text.
--
-- fences.lua describes which tokens are accepted, and for how long they are stored. This script alone stores the
-- token of a new hold.
--
-- A name that is written has the field mode, with the value write, beside its owner. readers.lua describes a name
-- that is read. A name is read for as long as the longest lease of its readers. A reader shares the stored token. If
-- none is stored, the larger of its own token and the smallest acceptable one is stored.
--
-- Atomic for two reasons: no other call may come between the look and the write, and a lock on several names must
-- never be half-taken. Sent twice, it grants twice and counts once: the count is absolute. A token counts only
-- together with the grant, so the same script stores it. A queue only ever adds refusals.
--
-- The script begins in look.lua and joining.lua, with most of its variables. What is here follows in other cases than theirs,
-- or if more is asked for.

if spoilt and not declared then return fencing().spoilt(spoilt) end

-- Number of waiters, and their smallest ticket.
local waiting, first
if found > 0 then
  for i = fences + 1, token and fences or fences + names do
    if call('exists', KEYS[i]) == 1 then
      return redis.error_reply('FENCED ' .. KEYS[i] .. ' is there: others take this lock with fencing tokens')
    end
  end
end

if is_taken or is_added then
  -- In look.lua, or to read in joining.lua.
elseif ends_last then
  readers().join(KEYS[1], KEYS[readers_at + 1], owner, now + lease, ends_last, now)
else
  local queues, reading = queues(), mode and readers()
  for i = 2, last, 3 do
    if tonumber(call('zscore', KEYS[i], owner) or 0) > now then return {stamp, -1} end
  end

  local waiter, only, ticket = '', 0, tonumber(ARGV[6] or 9007199254740991)
  if (ARGV[7] or '') ~= '' then
    local number, name = string.match(ARGV[7], '^([^ ]*) ?(%d*)$')
    waiter, only = string.match(owner, '^(.*):') .. ':' .. number, tonumber(name) or 0
  end

  -- The queue of each name, its TTL, and the end of its readers' last lease.
  local its_queues, lefts, lasts = {}, {}, {}
  -- The names become free together, with the last of them.
  local causes, refused_for = {}, nil
  -- For each name, the only owner of this crate that has it.
  local owners = {}
  local one
  local function refuse(left)
    if refused_for == nil or (refused_for ~= -1 and (left == -1 or left > refused_for)) then refused_for = left end
  end
  for n = 1, names do
    local key = KEYS[3 * n - 2]
    local left = call('pttl', key)
    its_queues[n] = queues.of(KEYS[3 * n])
    causes[n], lefts[n] = '-', left
    if left ~= -2 then
      lasts[n] = mode and reading.read_until(key)
      -- Open are a name that is read, to another reader, and the owner's own name. An owner that only reads has no
      -- field of its own, so the name is not open to its write.
      local is_open = shared and lasts[n] or redis.pcall('hexists', key, owner) == 1
      if not is_open then
        local of_ours, is_alone
        causes[n], of_ours, is_alone = queues.holder(key, its_queues[n])
        one = one or of_ours
        owners[n] = is_alone and of_ours
        if is_alone and string.sub(of_ours, -1) == 's' then causes[n] = 'i' end
        refuse(left)
      end
    end
  end
  for n = 1, ticket > 0 and names or 0 do
    -- On a free name it matters at once whether the client of the waiter ahead still listens.
    local queue, deadlines, here = its_queues[n], KEYS[3 * n], causes[n] == '-' and waiter
    local first, deadline = queues.head(queue, deadlines, now, here, shared)
    if first and first ~= waiter and queues.is_before(queues.ticket_of(queue, first), first, ticket, waiter) then
      causes[n] = causes[n] == '-' and 'a' or string.upper(causes[n])
      -- Without a deadline the next call looks at more of the queue.
      refuse(deadline and deadline - now or 1)
    end
  end

  if refused_for ~= nil then
    local words = table.concat(causes)
    -- A try that only idle grants refuse asks again at once, with a place in the queues: they may be free by then.
    local is_try = waiter == '' and ticket == 9007199254740991 and not string.find(words, '[^-i]')
    for n = 1, names do
      local name, queue, deadlines = KEYS[3 * n - 2], its_queues[n], KEYS[3 * n]
      local here, changes = '', causes[n] == 'a'
      if waiter ~= '' and (only == 0 or only == n) then
        local is_new = queues.enqueue(queue, deadlines, now, waiter, ARGV[6])
        here = waiter
        -- The first waiter recalls the hold, as does every waiter that asks again: the first recall may be lost.
        local is_first = causes[n] == 'o' or causes[n] == 'i'
        if owners[n] and (is_first or not is_new) then queues.recall(owners[n], ARGV[6], name) end
      elseif waiter ~= '' and queues.drop(queue, deadlines, waiter) then
        changes = true
      elseif is_try and owners[n] and string.match(owners[n], '^(.*):') ~= string.match(owner, '^(.*):') then
        queues.recall(owners[n], '9007199254740991', name)
      end
      -- After the end of a lease, or a release by another library, nothing else would call the waiter ahead.
      local is_read = changes and (reading or readers()).read_until(name)
      if is_read or changes and (causes[n] == '-' or causes[n] == 'a') then
        queues.call_head(name, queue, deadlines, now, here, nil, is_read)
      end
    end
    return {stamp, 0, refused_for, words, one and label_of(one) or '', token and highest or nil}
  end

  local counted, smallest = 0, nil
  for n = 1, names do
    local name, queue, deadlines = KEYS[3 * n - 2], its_queues[n], KEYS[3 * n]
    local _, rank
    if waiter ~= '' then _, rank = queues.drop(queue, deadlines, waiter) end
    -- The waiter behind does not know this lease yet.
    queues.tell_head(name, queue, deadlines, now, math.max(lefts[n], tonumber(lease)))
    -- After the end of a lease nothing else would call the other waiters that may read, either.
    if shared and (rank or not lasts[n]) then queues.call_next(name, queue, deadlines, now, rank or 0) end
    local behind, its = queues.waiting(queue)
    if its then
      counted = counted + behind
      smallest = math.min(smallest or its, its)
    end
  end
  if smallest then waiting, first = counted, smallest end

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
      -- The TTL first: after one write OOM cannot stop the script. The TTL is only ever raised.
      call('pexpire', key, math.max(left, tonumber(lease)))
      call('hset', key, owner, count)
    elseif lasts[n] then
      reading.join(key, its_readers, owner, now + lease, lasts[n], now)
    else
      -- This master did not get the owner's downgrade, so the name has stayed written until now.
      reading.turn(key, its_readers, owner, tonumber(lease))
    end
  end
end

if about then
  caption(caption_of(owner), about, not shared and token and string.format('%.0f', token), lease)
  -- A hold that is put back, or taken on more masters, is no news.
  for i = 3, declared and 0 or last, 3 do publish(owner, KEYS[i], 'granted') end
end

local granted = waiting and {stamp, 1, waiting, first} or stamp
if not token then return granted end
if declared then
  local keep_up = fencing().keep_up
  for i = fences + 1, fences + names do keep_up(KEYS[i], top, clock) end
  return granted
end
if shared then
  if absent then highest = math.max(highest, token, clock - BEHIND + 1) end
  if absent or names > 1 or clock > highest + OLD then
    local keep_up = fencing().keep_up
    for i = fences + 1, fences + names do keep_up(KEYS[i], string.format('%.0f', highest), clock) end
  end
  return {stamp, 3, highest, waiting, first}
end
if token <= highest then return {stamp, 3, highest, waiting, first} end
local life = token + beyond_first <= clock + AHEAD and LIFE or fencing().life_of(top, clock)
for i = fences + 1, fences + names do call('set', KEYS[i], top, 'px', life) end
return granted
