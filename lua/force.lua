-- force: take every name away from whoever holds it, and keep the former holder out.
--
-- KEYS  name 1, revocation mark 1, name 2, revocation mark 2, ...
-- ARGV  ms that a mark lives, number of names n, channel 1 ... channel n, owner field 1, owner field 2, ...
-- Returns the owner fields that were found here.
--
-- The mark is a set of owner fields. It makes stragglers of those owners (a late acquire, an
-- extension) answer "revoked", also on a master where the owner had nothing yet; without it the
-- holder's next renewal would undo the force. Atomic, so that nothing slips between delete and mark.

local lifetime, names = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
for i = 1, #KEYS, 2 do
  local key, mark = KEYS[i], KEYS[i + 1]
  local former = {}
  for j = 3 + names, #ARGV do former[#former + 1] = ARGV[j] end
  if redis.call('type', key)['ok'] == 'hash' and redis.call('hlen', key) <= 64 then
    for _, field in ipairs(redis.call('hkeys', key)) do
      former[#former + 1] = field
      found[#found + 1] = field
    end
  end
  -- The delete first: after one write OOM cannot stop the mark.
  local existed = redis.call('del', key)
  if #former > 0 then
    local left = redis.call('pttl', mark)
    redis.call('sadd', mark, unpack(former))
    redis.call('pexpire', mark, math.max(left, lifetime))
  end
  if existed == 1 then redis.pcall('publish', ARGV[2 + (i + 1) / 2], '0') end
end
return found
