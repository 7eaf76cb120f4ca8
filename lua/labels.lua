-- labels: read the labels of clients. Is put in front of the scripts that report holders.

-- The label of an owner's client, or nothing. Only clients of this crate have one; their ids are UUIDs of version 8.
local function label_of(owner)
  local client = string.match(owner, '^(%x+%-%x+%-8%x+%-%x+%-%x+):%d+s?$')
  -- pcall: the label stays unknown if the command is denied, or if the key has another type.
  local label = client and redis.pcall('get', 'multilock_client:' .. client)
  return type(label) == 'string' and label or ''
end
