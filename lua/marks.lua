-- marks: the mark of a job that is done, as mark.lua and finish.lua store it.
--
-- A mark refuses every attempt that comes to this master after it. It says nothing to an attempt that has the name
-- already, so beside one it is stored and does not count.
--
-- A mark is stored for what is left of its time by this master's clock, so a call that comes late, or twice, does not
-- lengthen it. Two marks become one: the job was done at the later of both times, and is not begun again until the later
-- of both ends. So their order does not matter.
--
-- A job that is forgotten has a note in the mark's place for a while (mark.lua). It keeps out the marks from before: a
-- client may have read one, or may not have stored it on every master yet.

-- Text of a mark or a note; empty if there is none.
local function stored(key)
  -- pcall: a key of another type is no mark, and is overwritten.
  local text = redis.pcall('get', key)
  return type(text) == 'string' and text or ''
end

-- Returns 1, or 0 if nothing was stored: the time is over by this master's clock, or the job was forgotten since.

local function store_mark(key, done_at, again_after, label)
  local at, keep = tonumber(done_at), tonumber(again_after)
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if at + keep <= now then return 0 end
  local mark = stored(key)
  local forgotten_at = tonumber((string.match(mark, '^forgotten (%d+)$')))
  if forgotten_at and at < forgotten_at then return 0 end
  local its_at, its_keep, its_label = string.match(mark, '^(%d+) (%d+) (.*)$')
  if its_at then
    its_at, its_keep = tonumber(its_at), tonumber(its_keep)
    local ends = math.max(at + keep, its_at + its_keep)
    if its_at >= at then at, label = its_at, its_label end
    keep = ends - at
  end
  local merged = string.format('%.0f %.0f ', at, keep) .. label
  if merged ~= mark then redis.call('set', key, merged, 'px', math.min(keep, at + keep - now)) end
  return 1
end

-- Whether anybody but the owner has the name: a holder, or an attempt that may become one.
local function is_taken(name, owner)
  -- pcall: nobody has a key of another type.
  local fields = redis.pcall('hkeys', name)
  for n = 1, #fields do
    if fields[n] ~= owner then return true end
  end
  return false
end
