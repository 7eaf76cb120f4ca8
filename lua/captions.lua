-- captions: a text and a token of a hold, for people and for clients that watch a leader. Is put in front of every
-- script that begins a hold, extends it, ends it or shows it.
--
-- Letters behind the number of an owner field stand for data and messages of the hold:
-- - c  a caption: a hash with the fields about, a text or nothing, and token, the token of its first holder or 0,
-- - p  its terms are published: each grant, release and force, on a channel of the name.
-- Most owners have neither, and cost one look at their last letter.
--
-- pcall throughout: nothing else depends on it, so an ACL may deny the key or the channel, and the key may have another
-- type.

-- The key of an owner's caption, if it has one.
local function caption_of(owner)
  -- A last byte above the digits is a letter.
  if (string.byte(owner, -1) or 0) > 57 and string.find(owner, ':%d+%l*c%l*$') then return 'multilock_about:' .. owner end
end

-- Stores a caption for some ms. With `about`, also its text.
local function caption(key, about, token, ms)
  if about then redis.pcall('hset', key, 'about', about) end
  if token then redis.pcall('hset', key, 'token', token) end
  redis.pcall('pexpire', key, ms)
end

-- Publishes an event of an owner with the letter p. The channel has the end of a key that belongs to the name.
local function publish(owner, key_beside, event)
  if string.find(owner, 'p%l*$') then
    redis.pcall('publish', 'multilock:leads' .. string.match(key_beside, ':.*$'), event)
  end
end
