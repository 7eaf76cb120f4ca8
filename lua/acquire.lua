-- acquire: take every name for one owner, all or nothing on this master.
--
-- KEYS  name 1, revocation mark 1, name 2, revocation mark 2, ..., the charter, and when fenced: fence 1,
--       fence 2, ..., and when the master's memory is marked: its marker
-- ARGV  owner field, hold count, lease in ms, 1 when the memory is marked or 0, longest lease in ms that the
--       client reckons with, and when fenced: token, the last token of its block, 1 when the token was
--       accepted before, for a hold that is taken again, or 0
-- Returns
--   stamp                         granted: the owner's field stands under every name, and the token, if there
--                                 is one, was accepted: it is above every fence, or was accepted before
--   {stamp, 3, highest}           granted, but the token is not above every fence
--   {stamp, 0, ms left, holder[, highest]}  refused; nothing was written (ms left is -1 without a TTL)
--   {stamp, -1}                   revoked: this owner was forced out; nothing was written
--   {stamp, -2, longest}          others may have longer leases than the client reckons with, up to so many ms;
--                                 nothing was written
-- or an error that begins with FENCE: a fence is spoilt, until somebody deletes its key; nothing was written.
-- Highest is the largest fence of any of the names before, in decimal digits, and stamp is the master's wall
-- clock in microseconds, with a marker: as digits, a space, and what it says.
--
-- A fence is what a token must be above: what is stored, or the floor where nothing is: the clock less five
-- minutes. What is stored is the last token of the block that was accepted last, until the clock is ten minutes
-- past it. From then on the floor is above it by five minutes, by which the clock may be set back.
--
-- Atomic, because the look and the write must not be parted, and a lock on several names must never
-- stand half-taken. Sent again it grants again and counts nothing twice: the count is absolute. The
-- token counts only together with the grant, so it moves in the same script.

local call = redis.call
local owner, count, lease, token, top = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6]), ARGV[7]
local declared = ARGV[8] == '1'
-- In microseconds: how far the floor is below the clock, how long a fence lives after its token, and how far
-- above the clock it may be.
local BELOW, LIFE, ABOVE = 300000000, 600000000, 86400000000
local marked = ARGV[4] == '1'
local fences = marked and #KEYS - 1 or #KEYS
local charter = token and (fences - 1) / 3 * 2 + 1 or fences
local last = charter - 1

-- By which the client notices a clock that was set forward, and a memory that was wiped.
local time = call('time')
local clock = time[1] * 1000000 + time[2]
local stamp = clock
if marked then stamp = string.format('%.0f ', stamp) .. (call('get', KEYS[#KEYS]) or '') end

-- The largest fence. A token that was accepted before is below the floor at times, and counts all the same.
local highest = 0
for i = charter + 1, fences do
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
  if fence and fence > highest then highest = fence end
end

-- The common case in one look: nobody holds any name, nobody was forced out of one, and no lease is so
-- long that clients had to agree upon it. What the other cases need is defined there, so that the common
-- one does not pay for it.
local found = call('exists', unpack(KEYS, 1, charter))
if found > 0 then
  local agreed = call('get', KEYS[charter])
  if agreed then
    -- Who does not know how long others may hold cannot tell whose votes count.
    local longest = tonumber(string.match(agreed, '^%d+')) or 0
    if longest > tonumber(ARGV[5]) then return {stamp, -2, string.format('%.0f', longest)} end
    found = found - 1
  end
end

if found == 0 then
  for i = 1, last, 2 do
    -- The field first: under OOM the script stops here, before anything is written.
    call('hset', KEYS[i], owner, count)
    call('pexpire', KEYS[i], lease)
  end
else
  local now = time[1] * 1000 + time[2] / 1000
  for i = 2, last, 2 do
    if tonumber(call('zscore', KEYS[i], owner) or 0) > now then return {stamp, -1} end
  end

  -- Who holds a key that is not ours: a hash field, or, for another library's key, what tells its
  -- holders apart without giving their secret away.
  local function holder(key)
    local kind = call('type', key)['ok']
    if kind == 'string' then return 'string:' .. redis.sha1hex(call('get', key)) end
    if kind ~= 'hash' or call('hlen', key) > 64 then return kind end
    for _, field in ipairs(call('hkeys', key)) do
      if field ~= 'mode' then return field end
    end
    return kind
  end

  local refused_for, refused_by = nil, nil
  for i = 1, last, 2 do
    local left = call('pttl', KEYS[i])
    -- pcall: a key of another type is an answer here, not an error.
    if left ~= -2 and redis.pcall('hexists', KEYS[i], owner) ~= 1 then
      -- The names come free together when the last of them does.
      if refused_for == nil or (refused_for ~= -1 and (left == -1 or left > refused_for)) then
        refused_for, refused_by = left, holder(KEYS[i])
      end
    end
  end
  if refused_for ~= nil then
    return {stamp, 0, refused_for, refused_by, token and string.format('%.0f', highest) or nil}
  end

  for i = 1, last, 2 do
    local left = call('pttl', KEYS[i])
    if left == -2 then
      call('hset', KEYS[i], owner, count)
      call('pexpire', KEYS[i], lease)
    else
      -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
      call('pexpire', KEYS[i], math.max(left, tonumber(lease)))
      call('hset', KEYS[i], owner, count)
    end
  end
end

if not token then return stamp end
if token <= highest and not declared then return {stamp, 3, string.format('%.0f', highest)} end
-- Whole milliseconds, none of them too few.
local left = math.ceil((top + LIFE - clock) / 1000)
for i = charter + 1, fences do
  -- What was accepted before may be below what is stored by now, or so old that the floor is above it.
  local stored = declared and redis.pcall('get', KEYS[i])
  local below = not stored or type(stored) == 'string' and (tonumber(stored) or token) < token
  if below and left > 0 then call('set', KEYS[i], top, 'px', left) end
end
return stamp
