-- fences: fencing tokens that a master has accepted. Is put in front of every script that stores one.
--
-- A name's fence is the largest token that was accepted for it, or the last token of the block. A token is accepted
-- if it is above the fence. If no fence is stored, the token must be less than BEHIND behind the clock.
--
-- Why tokens rise: let a token T be accepted here, and its fence be gone later. The fence has lived until the clock was
-- BEHIND + BACK past T. The clock may have been set back by BACK since, so it is BEHIND past T at least. A token that is
-- accepted now is above the clock less BEHIND, so it is above T. How a hold ended does not matter. So nothing but an
-- acquire, a raise and an extension stores a token.
--
-- A token that was accepted elsewhere is declared. It is compared with nothing. It is stored over a smaller fence. If
-- no fence is stored, it is stored only if it would be accepted. An older token would let in tokens that are smaller
-- than one that was accepted and forgotten.
--
-- A fence lives for as long as holders renew. So a reader that comes later gets the token of those that read, a lock without
-- tokens is refused, and operators see since when a name is held.

-- In microseconds: how far a token may be behind the clock, and ahead of it for a life from now; how far a clock may
-- be set back; how far a fence may be ahead of the clock; and the age at which holders renew a fence, so that it outlives
-- a lease.
local BEHIND, AHEAD, BACK, FAR, OLD = 10000000, 10000000, 100000000, 86400000000, 50000000
-- AHEAD, BEHIND and BACK together and one more, in ms.
local LIFE = '120001'

-- Functions on fences: made only where an acquire or an extension meets one, so that others do not pay for them.
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
