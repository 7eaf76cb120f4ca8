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
