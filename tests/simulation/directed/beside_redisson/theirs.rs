//! Redisson's locks on one master, by the scripts that its threads run.

use std::time::Duration;

use super::walk::Master;

/// Name that both sides want.
pub(crate) const NAME: &str = "a";

/// A kind of lock of theirs. Its scripts have three keys: the name, the beginning of the time-out keys, and the kind's
/// own key. They have three arguments: an owner field, the field of its thread as a writer, and the lease in ms. The
/// script that locks answers nothing if it got the lock.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    lock: &'static str,
    unlock: &'static str,
    /// Suffix of its field, behind the thread.
    suffix: &'static str,
    pub(crate) reads: bool,
    /// Whether it knows modes.
    pub(crate) is_read_write: bool,
}

const LOCK: &str = "
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return redis.call('pttl', KEYS[1])
    end
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[3])
    return false";
const UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
    redis.call('del', KEYS[1])
    return 1";

pub(crate) static RLOCK: Kind = Kind {
    name: "RLock",
    lock: LOCK,
    unlock: UNLOCK,
    suffix: "",
    reads: false,
    is_read_write: false,
};

static FENCED: Kind = Kind {
    name: "RFencedLock",
    lock: "
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return redis.call('pttl', KEYS[1])
    end
    redis.call('incr', KEYS[3])
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[3])
    return false",
    ..RLOCK
};

static READ: Kind = Kind {
    name: "RReadWriteLock, to read",
    lock: "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode then
        redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
        redis.call('set', KEYS[2] .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', ARGV[3])
        redis.call('pexpire', KEYS[1], ARGV[3])
        return false
    end
    if mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return redis.call('pttl', KEYS[1]) end
    local entry = redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('set', KEYS[2] .. ARGV[1] .. ':rwlock_timeout:' .. entry, 1, 'px', ARGV[3])
    redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[3]))
    return false",
    unlock: "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode or redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end
    local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
    if count == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
    redis.call('del', KEYS[2] .. ARGV[1] .. ':rwlock_timeout:' .. (count + 1))
    if redis.call('hlen', KEYS[1]) > 1 then
        local longest, entries = 0, redis.call('hgetall', KEYS[1])
        for at = 1, #entries, 2 do
            for entry = tonumber(entries[at + 1]) or 0, 1, -1 do
                local its = KEYS[2] .. entries[at] .. ':rwlock_timeout:' .. entry
                longest = math.max(longest, redis.call('pttl', its))
            end
        end
        if longest > 0 then redis.call('pexpire', KEYS[1], longest) return 0 end
        if mode == 'write' then return 0 end
    end
    redis.call('del', KEYS[1])
    return 1",
    suffix: "",
    reads: true,
    is_read_write: true,
};

static WRITE: Kind = Kind {
    name: "RReadWriteLock, to write",
    lock: "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode then
        redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[3])
        return false
    end
    if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return redis.call('pttl', KEYS[1]) end
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[3])
    return false",
    unlock: "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode or redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return false end
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then return 0 end
    redis.call('hdel', KEYS[1], ARGV[2])
    if redis.call('hlen', KEYS[1]) == 1 then
        redis.call('del', KEYS[1])
    else
        redis.call('hset', KEYS[1], 'mode', 'read')
    end
    return 1",
    suffix: ":write",
    reads: false,
    is_read_write: true,
};

/// Without a waiter in its list, an `RFairLock` looks and takes as an `RLock` does.
pub(crate) static LOCKS: [&Kind; 4] = [&RLOCK, &FENCED, &READ, &WRITE];

/// One of their threads with one of these.
#[derive(Clone)]
pub(crate) struct Theirs {
    pub(crate) kind: &'static Kind,
    owner: String,
}

impl Theirs {
    pub(crate) fn new(kind: &'static Kind, thread: u64) -> Self {
        Self {
            kind,
            owner: format!("00000000-0000-4000-8000-000000000000:{thread}"),
        }
    }

    async fn run(&self, master: &impl Master, script: &str, lease: Duration) -> Vec<String> {
        let keys = [NAME, "{a}:", "redisson_lock_token:{a}"];
        let (writer, lease) = (format!("{}:write", self.owner), lease.as_millis().to_string());
        let args = [self.owner.as_str(), &writer, &lease];
        master.run_script(script, &keys, &args).await
    }

    /// Whether it was got.
    pub(crate) async fn lock(&self, master: &impl Master, lease: Duration) -> bool {
        self.run(master, self.kind.lock, lease).await.is_empty()
    }

    /// Whether it was held.
    pub(crate) async fn unlock(&self, master: &impl Master) -> bool {
        !self
            .run(master, self.kind.unlock, Duration::ZERO)
            .await
            .is_empty()
    }

    /// Whether its field stands there, in its mode.
    pub(crate) async fn holds(&self, master: &impl Master) -> bool {
        let fields = master.run(&["HGETALL", NAME]).await;
        let has = |field: &str, value: Option<&str>| {
            let mut pairs = fields.chunks_exact(2);
            pairs.any(|pair| pair[0] == field && value.is_none_or(|value| pair[1] == value))
        };
        let mode = match (self.kind.is_read_write, self.kind.reads) {
            (false, _) => return has(&self.field(), None),
            (true, true) => "read",
            (true, false) => "write",
        };
        has(&self.field(), None) && has("mode", Some(mode))
    }

    pub(crate) fn field(&self) -> String {
        format!("{}{}", self.owner, self.kind.suffix)
    }
}
