-- marks: the mark of a job that is done, as mark.lua and finish.lua store it.
--
-- A mark is stored for what is left of its time by this master's clock, so a call that comes late, or twice, does not
-- lengthen it. A mark that lasts longer stays. Returns 1, or 0 if the time is over by this master's clock, so that
-- nothing was stored.

local function store_mark(key, done_at, again_after, label)
  local at, keep = tonumber(done_at), tonumber(again_after)
  local time = redis.call('time')
  local left = math.min(keep, at + keep - time[1] * 1000 - math.floor(time[2] / 1000))
  -- pcall: a key of another type is no mark, and is overwritten.
  local mark = redis.pcall('get', key)
  local its, its_keep = string.match(type(mark) == 'string' and mark or '', '^(%d+) (%d+) ')
  local is_longer = its and tonumber(its) + tonumber(its_keep) >= at + keep
  if left <= 0 then return 0 end
  if not is_longer then redis.call('set', key, done_at .. ' ' .. again_after .. ' ' .. label, 'px', left) end
  return 1
end
