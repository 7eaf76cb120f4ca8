-- finish: store that a job is done, and release its hold. Is put behind marks.lua and in front of release.lua, whose own
-- keys and arguments are what is left here.
--
-- KEYS  behind those of release.lua: the job's mark
-- ARGV  behind those of release.lua: ms of the wall clock at which the job was done, ms for which it is not to be begun
--       again, label of its client
-- Returns
--   0                      the mark's time is over by this master's clock; nothing was stored, and nothing was released
--  -1                      the mark is stored, and does not count: somebody else has the name, so nothing is released
--   any other              the mark is stored; the answer of release.lua
--
-- One script, because no moment may lie between the two at which a master neither refuses others nor reports that the
-- job is done. The mark comes first: a master that is out of memory then stores nothing and releases nothing.

local label, again_after, done_at = table.remove(ARGV), table.remove(ARGV), table.remove(ARGV)
if store_mark(table.remove(KEYS), done_at, again_after, label) == 0 then return 0 end
if is_taken(KEYS[1], ARGV[1]) then return -1 end
