-- mark: store that a job is done, confirm that, or forget it. Is put behind marks.lua.
--
-- KEYS  the job's mark; its name, unless the mark is to be forgotten
-- ARGV  ms of the wall clock, to forget the marks of jobs that were done before; or: ms of the wall clock at which the
--       job was done, ms for which it is not to be begun again, label of its client, owner field of its hold or an empty
--       word; and to confirm the mark, the word confirm
-- Returns
--   1   the mark is stored, or forgotten
--   0   nothing was stored: the mark's time is over by this master's clock, the job was forgotten since, or there is no
--       mark to be confirmed
--  -1   the mark is stored, and does not count: somebody else has the name
--
-- A call that confirms stores no mark where there is none: the job may have been forgotten since the caller read its mark.

-- Ms for which older marks are kept out: a client asks a master that was away again after ten seconds at most.
local FORGOTTEN = 15000

if not ARGV[2] then
  local note = redis.pcall('set', KEYS[1], 'forgotten ' .. ARGV[1], 'px', FORGOTTEN)
  -- A master that is out of memory forgets all the same.
  if note['err'] then redis.call('del', KEYS[1]) end
  return 1
end
if ARGV[5] and not string.find(stored(KEYS[1]), '^%d') then return 0 end
if store_mark(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) == 0 then return 0 end
return is_taken(KEYS[2], ARGV[4]) and -1 or 1
