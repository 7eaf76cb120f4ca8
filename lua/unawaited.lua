-- unawaited: release a hold of one name that nobody waits for, or one reader beside a later one. Is put in front of
-- release.lua and its parts, so that these common cases do not pay for functions of the other cases. release.lua says which
-- keys and arguments there are.

-- An owner with a letter at its end has more to be released than its name.
if not ARGV[2] and not KEYS[3] and (string.byte(ARGV[1], -1) or 0) <= 57 and redis.call('exists', KEYS[2]) == 0 then
  -- pcall: release.lua meets the same error.
  if redis.pcall('hdel', KEYS[1], ARGV[1]) == 1 then return 1 end
end
if ARGV[1] == 'rw' and not ARGV[3] and not KEYS[4] and (string.byte(ARGV[2] or '', -1) or 0) <= 57 then
  -- pcall, here and below: a key of another type is not read, and has no readers.
  local some = redis.pcall('zrange', KEYS[3], '-2', '-1')
  local last = some[#some]
  if last and last ~= ARGV[2] then
    -- The name is read as long as before, so nobody is called.
    if redis.call('zrem', KEYS[3], ARGV[2]) == 1 then return 1 end
  elseif not some[2] and redis.call('exists', KEYS[2]) == 0 then
    -- A single reader: if the set had lost others, it would have a reader for them.
    if last and type(redis.pcall('hget', KEYS[1], 'multilock')) == 'string' then
      redis.call('del', KEYS[1], KEYS[3])
      return 1
    end
    if redis.pcall('hdel', KEYS[1], ARGV[2]) == 1 then
      redis.call('del', KEYS[1])
      return 1
    end
  end
end
