-- mark: store that a job is done, or forget it.
--
-- KEYS  the job's mark
-- ARGV  none, to forget the mark; or: ms of the wall clock at which the job was done, ms for which it is not to be begun
--       again, label of its client
-- Returns 1, or 0 if the mark's time is over by this master's clock, so that nothing was stored
--
-- The mark is stored for what is left of its time by this master's clock, so a call that comes late, or twice, does not
-- lengthen it. A mark that lasts longer stays.

if not ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
local at, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('time')
local left = math.min(keep, at + keep - time[1] * 1000 - math.floor(time[2] / 1000))
-- pcall: a key of another type is no mark, and is overwritten.
local mark = redis.pcall('get', KEYS[1])
local its, its_keep = string.match(type(mark) == 'string' and mark or '', '^(%d+) (%d+) ')
local is_longer = its and tonumber(its) + tonumber(its_keep) >= at + keep
if left <= 0 then return 0 end
if not is_longer then redis.call('set', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], 'px', left) end
return 1
