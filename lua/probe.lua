-- probe: name the commands of the other scripts that this user may not run.
--
-- KEYS  a key that nothing else uses
-- ARGV  commands, each with its words separated by spaces; $ is a placeholder for the key; the first one is "del $"
-- Returns the names of the denied commands, and the server's reason why it takes no writes now; empty if it takes them.
--
-- Leaves nothing: the script deletes at once the key that a command writes. If the user may not delete, no other
-- command runs. Atomic, so that no other client sees the key. Any other error shows nothing about the user's rights.

-- A full server refuses the first write of a script alone. This one writes nothing: there is no such key.
local first = redis.pcall('set', KEYS[1], '', 'xx')
local refused = type(first) == 'table' and first['err'] or ''
if not string.find(refused, 'OOM ', 1, true) and not string.find(refused, 'MISCONF ', 1, true)
  and not string.find(refused, 'NOREPLICAS ', 1, true) then
  refused = ''
end

local denied = {}
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word == '$' and KEYS[1] or word end
  local answer = redis.pcall(unpack(words))
  local wrong = type(answer) == 'table' and answer['err'] or ''
  if string.find(wrong, "can't run this command", 1, true) or string.find(wrong, 'permissions to run', 1, true)
    or string.find(wrong, 'Unknown Redis command', 1, true) then
    denied[#denied + 1] = words[1]
    if i == 1 then return {denied, refused} end
  end
  redis.pcall('del', KEYS[1])
end
return {denied, refused}
