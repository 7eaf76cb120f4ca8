-- labels: read the labels of clients and the captions of holds. Is put in front of the scripts that report holders.

-- Labels by client, as far as this call has read them: most names of a list are held by few clients.
local labels = {}

-- The label of a client, or an empty word.
local function label_of_client(client)
  if not labels[client] then
    -- pcall, here and below: the label stays unknown if the command is denied, or if the key has another type.
    local label = redis.pcall('get', 'multilock_client:' .. client)
    labels[client] = type(label) == 'string' and label or ''
  end
  return labels[client]
end

-- The label of an owner's client, or an empty word; for an owner with a caption: {label, about, token}. Only clients of
-- this crate have a label; their ids are UUIDs of version 8.
local function label_of(owner)
  local client = string.match(owner, '^(%x+%-%x+%-8%x+%-%x+%-%x+):%d+%l*$')
  if not client then return '' end
  local label, its = label_of_client(client), caption_of(owner)
  if not its then return label end
  local about, token = redis.pcall('hget', its, 'about'), redis.pcall('hget', its, 'token')
  return {label, type(about) == 'string' and about or '', type(token) == 'string' and token or '0'}
end
