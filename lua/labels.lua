-- labels: what clients call themselves. Stands in front of the scripts that tell who holds.

-- The label of an owner's client, or nothing: only clients of this crate have one, whose ids are UUIDs of version 8.
local function label_of(owner)
  local client = string.match(owner, '^(%x+%-%x+%-8%x+%-%x+%-%x+):%d+$')
  -- pcall: where it is denied, or a key of another type, nobody knows.
  local label = client and redis.pcall('get', 'multilock_client:' .. client)
  return type(label) == 'string' and label or ''
end
