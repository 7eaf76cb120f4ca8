-- probe: which of the commands that the other scripts run this user may not run.
--
-- KEYS  a key that nothing else uses
-- ARGV  commands, each with its words separated by spaces; $ stands for the key; the first one is "del $"
-- Returns the names of those that are denied.
--
-- Leaves nothing: what a command writes is deleted right behind it, and where the user may not delete,
-- nothing else is run. Atomic, so that nobody sees the key. Any other error (no memory, no replicas)
-- tells nothing of what the user may do.

local denied = {}
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word == '$' and KEYS[1] or word end
  local answer = redis.pcall(unpack(words))
  local wrong = type(answer) == 'table' and answer['err'] or ''
  if string.find(wrong, "can't run this command", 1, true) or string.find(wrong, 'permissions to run', 1, true)
    or string.find(wrong, 'Unknown Redis command', 1, true) then
    denied[#denied + 1] = words[1]
    if i == 1 then return denied end
  end
  redis.pcall('del', KEYS[1])
end
return denied
