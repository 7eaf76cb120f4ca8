-- fencing: functions on fences. Is put behind fences.lua in front of every script that stores a token.

-- The functions are made only where an acquire or an extension meets a fence, so that others do not pay for them.
local function fencing()
  -- Ms for which a token is stored.
  local function life_of(token, clock)
    if tonumber(token) <= clock + AHEAD then return LIFE end
    return math.ceil((token + BEHIND + BACK - clock) / 1000) + 1
  end

  -- The token that is stored as a fence, or nothing if the value is none.
  local function fence_of(stored, clock)
    local fence = type(stored) == 'string' and tonumber(stored)
    if fence and fence >= 0 and fence <= clock + FAR then return fence end
  end

  local function spoilt(fence)
    return redis.error_reply('FENCE ' .. fence .. ' holds no token of the last day or earlier, by this clock; DEL it')
  end

  -- Stores a token that was declared, or that a reader got. Renews a fence that is as high.
  local function keep_up(key, token, clock)
    -- pcall: a fence of another type stays as it is.
    local stored, value = redis.pcall('get', key), tonumber(token)
    local fence = type(stored) == 'string' and tonumber(stored)
    if not stored and value > clock - BEHIND or fence and fence < value then
      redis.call('set', key, token, 'px', life_of(token, clock))
    elseif fence and clock > fence + OLD then
      redis.call('pexpire', key, LIFE)
    end
  end

  return {life_of = life_of, fence_of = fence_of, spoilt = spoilt, keep_up = keep_up}
end
