-- mark: store that a job is done, or forget it. Is put behind marks.lua.
--
-- KEYS  the job's mark
-- ARGV  none, to forget the mark; or: ms of the wall clock at which the job was done, ms for which it is not to be begun
--       again, label of its client
-- Returns 1, or 0 if the mark's time is over by this master's clock, so that nothing was stored

if not ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
return store_mark(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
