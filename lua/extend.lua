-- extend: raise the time to live of what some owners hold. Creates nothing.
--
-- KEYS  for each hold: name 1, revocation mark 1, name 2, revocation mark 2, ...
-- ARGV  for each hold: owner field, hold count, lease in ms, number of names
-- Returns for each hold
--   1                        continued: every name was held, none has less than the lease left
--   2                        absent: a name is free here; nothing was written
--   {0, ms left, type}       another holds a name; nothing was written
--   -1                       revoked: this owner was forced out; nothing was written
--
-- Many holds in one call, because a process renews all of its holds together. Atomic, because a name
-- may expire between the look and the write. It never creates a key: one that arrives after the
-- unlock must not leave an orphan.

local function extend(first, last, owner, count, lease)
  local absent = false
  for i = first, last, 2 do
    -- pcall: a key of another type is an answer here, not an error.
    if redis.pcall('hexists', KEYS[i], owner) ~= 1 then
      if redis.call('sismember', KEYS[i + 1], owner) == 1 then return -1 end
      local left = redis.call('pttl', KEYS[i])
      if left ~= -2 then return {0, left, redis.call('type', KEYS[i])['ok']} end
      absent = true
    end
  end
  if absent then return 2 end
  for i = first, last, 2 do
    -- The TTL first: after one write OOM cannot stop the script. It is only ever raised.
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    redis.call('hset', KEYS[i], owner, count)
  end
  return 1
end

local answers, first = {}, 1
for i = 1, #ARGV, 4 do
  local last = first + 2 * tonumber(ARGV[i + 3]) - 1
  answers[#answers + 1] = extend(first, last, ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]))
  first = last + 1
end
return answers
