-- charter: raise the longest lease that the clients of these masters have agreed upon, and say what
-- stands here. Lowers nothing. Beside it, the number of masters in the set is kept.
--
-- KEYS  the charter, the number of masters
-- ARGV  longest lease that anybody may come to ask for, longest one that is in force, both in ms; number
--       of masters that the client lists, 1 to store that in place of another number or 0; what the client
--       calls itself
-- Returns {longest lease, longest one in force, number of masters}; the leases in ms, 0 where nothing
-- stands
--
-- Atomic, because two clients may raise it at once. The charter is stored as two numbers, the second for
-- clients that come while a longer lease waits for a master that is down, and who has stored the first one
-- here, for people alone. Clients that know nothing of the third word leave it out where they raise.

local function longer(stored, told)
  return math.max(tonumber(stored) or 0, tonumber(told))
end

local stands = redis.call('get', KEYS[1]) or ''
local before, in_force, who = string.match(stands, '^(%d+) ?(%d*) ?(.*)$')
local longest = longer(before, ARGV[1])
in_force = longer(in_force, ARGV[2])
if longest > (tonumber(before) or 0) then who = ARGV[5] end
local raised = string.format('%.0f %.0f', longest, in_force)
if (who or '') ~= '' then raised = raised .. ' ' .. who end
if longest > 0 and raised ~= stands then redis.call('set', KEYS[1], raised) end

local masters = tonumber(redis.call('get', KEYS[2]) or '')
if masters == nil or masters ~= tonumber(ARGV[3]) and ARGV[4] == '1' then
  redis.call('set', KEYS[2], ARGV[3])
  masters = tonumber(ARGV[3])
end
return {longest, in_force, masters}
