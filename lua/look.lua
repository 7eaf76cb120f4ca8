-- look: the beginning of acquire.lua. It looks at the names, and grants a lock whose names are all free, unless it is to read
-- (joining.lua). It is put in front of most parts, so that this common case does not pay for functions of the other cases:
-- to make those takes a master as long as two commands. acquire.lua says which keys and arguments there are.

local call = redis.call
local owner, lease, top, options, about = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8]
local count, mode, declared, recorded = '1', nil, nil, nil
if options == 'r' or options == 'w' then
  mode = options
elseif (options or '') ~= '' then
  mode, declared = string.match(options, '^[wr]'), string.find(options, 'd', 1, true)
  recorded = string.find(options, 'm', 1, true)
end
if ARGV[5] then count = ARGV[5] end
local shared = mode == 'r'
local token = tonumber(top)
-- The first token of the block.
local beyond_first = 63
if options and #options > 1 then beyond_first = (tonumber(string.match(options, '%d+$')) or 64) - 1 end
if token and not shared then token = token - beyond_first end
local names = (#KEYS - (recorded and 1 or 0)) / (mode and 5 or 4)
local last = 3 * names
-- Indices before the first name's fence and readers.
local fences = last
local readers_at = fences + names

-- The client detects with the stamp that a clock was set forward, or that a memory was wiped.
local time = call('time')
local clock = time[1] * 1000000 + time[2]
local stamp = clock
if recorded then
  -- pcall: a key of another type is no record.
  local record = redis.pcall('get', KEYS[#KEYS])
  stamp = string.format('%.0f ', stamp) .. (type(record) == 'string' and record or '')
end

-- All keys in one look: a name that was not locked for long has no fence to be read. One reader alone looks otherwise.
local existing = (not shared or names > 1) and call('exists', unpack(KEYS, 1, fences + names))

-- The largest fence, whether one is absent, and a spoilt one.
local highest, absent, spoilt = 0, false, nil
for i = fences + 1, token and fences + names or fences do
  -- pcall: a key of another type is spoilt, too.
  local stored = existing ~= 0 and redis.pcall('get', KEYS[i])
  local fence = clock - BEHIND
  if stored then
    existing = existing and existing - 1
    fence = type(stored) == 'string' and tonumber(stored)
    -- As in fencing.lua, whose functions cost more than this look.
    if not (fence and fence >= 0 and fence <= clock + FAR) then fence, spoilt = nil, KEYS[i] end
  end
  absent = absent or not stored
  if fence and fence > highest then highest = fence end
end

-- Every name is free, without waiters or revocation marks. A lock without a token needs names without fences, too.
local is_taken = existing == 0 and not shared and (declared or not spoilt)
if is_taken then
  for n = 1, names do
    local name = KEYS[3 * n - 2]
    -- The field first: under OOM the script stops here, before anything is written.
    if mode then call('hset', name, 'mode', 'write', owner, count) else call('hset', name, owner, count) end
    call('pexpire', name, lease)
    -- Readers that are left over from before read no longer.
    if mode then call('del', KEYS[readers_at + n]) end
  end
  if not about and not spoilt and (not token or token > highest and token + beyond_first <= clock + AHEAD) then
    for i = fences + 1, token and fences + names or fences do call('set', KEYS[i], top, 'px', LIFE) end
    return stamp
  end
end
