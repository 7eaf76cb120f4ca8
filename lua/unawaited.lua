-- unawaited: release a plain hold of one name that nobody waits for. Is put in front of release.lua and its parts, so that
-- this common case does not pay for functions of the other cases. release.lua says which keys and arguments there are.

-- An owner with a letter at its end has more to be released than its name.
if not ARGV[2] and not KEYS[3] and (string.byte(ARGV[1], -1) or 0) <= 57 and redis.call('exists', KEYS[2]) == 0 then
  -- pcall: release.lua meets the same error.
  if redis.pcall('hdel', KEYS[1], ARGV[1]) == 1 then return 1 end
end
