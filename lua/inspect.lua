-- inspect: who holds each name here. Writes nothing.
--
-- KEYS  name 1, name 2, ...
-- Returns one array per name: {type, ms left, field 1, count 1, field 2, count 2, ...};
-- type is 'none' for a free name, and fields are listed for a hash of at most 64 of them.
--
-- Atomic, so that type, TTL and fields belong together.

local report = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('type', key)['ok']
  local entry = {kind, redis.call('pttl', key)}
  if kind == 'hash' and redis.call('hlen', key) <= 64 then
    for _, text in ipairs(redis.call('hgetall', key)) do entry[#entry + 1] = text end
  end
  report[i] = entry
end
return report
