local redis, caught = ...
local error, getmetatable, next, setfenv, tostring, type = error, getmetatable, next, setfenv, tostring, type
local pcall, rawset, setmetatable, xpcall = pcall, rawset, setmetatable, xpcall

local READ_ONLY = "Attempt to modify a readonly table"
local function refuse() error(READ_ONLY, 2) end
local function read_only(index)
    return { __index = index, __newindex = refuse, __metatable = false }
end
local function settled(ok, ...)
    if ok then return ok, ... end
    local err = caught((...))
    if type(err) == "table" and type(err.err) == "string" then err = err.err end
    return false, err
end

local base = {
    pcall = function(...) return settled(pcall(...)) end,
    xpcall = function(f, handler)
        return xpcall(f, function(err) return handler(caught(err)) end)
    end,
    rawset = function(t, name, value)
        if getmetatable(t) == false then error(READ_ONLY, 0) end
        return rawset(t, name, value)
    end,
}
for name in ([[_VERSION assert error getmetatable ipairs next pairs rawequal rawget select setmetatable
        tonumber tostring type unpack]]):gmatch("%S+") do
    base[name] = _G[name]
end
setmetatable(base, { __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })

redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
-- C's generator keeps its state between runs.
math.random, math.randomseed = nil, nil
local libraries = {
    math = read_only(math), redis = read_only(redis), string = read_only(string), table = read_only(table),
}
-- All strings share one metatable, which leads to the library itself.
getmetatable("").__metatable = false

return function(script, keys, argv, handler)
    local own = setmetatable({ KEYS = keys, ARGV = argv }, { __index = base })
    for name, meta in next, libraries do own[name] = setmetatable({}, meta) end
    own._G = setmetatable({}, read_only(own))
    setfenv(script, own._G)
    return xpcall(script, handler)
end
