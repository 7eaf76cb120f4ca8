//! The scripts of a read/write lock by hand: for one unfenced hold of one name, as whoever sends late or twice.

use std::time::Duration;

use redis::{Cmd, Value};

use super::foreign::read_write::Mode;

const ACQUIRE: &str = concat!(
    include_str!("../../../lua/labels.lua"),
    include_str!("../../../lua/queue.lua"),
    include_str!("../../../lua/readers.lua"),
    include_str!("../../../lua/acquire.lua")
);
const EXTEND: &str = concat!(
    include_str!("../../../lua/queue.lua"),
    include_str!("../../../lua/readers.lua"),
    include_str!("../../../lua/extend.lua")
);
const RELEASE: &str = concat!(
    include_str!("../../../lua/queue.lua"),
    include_str!("../../../lua/readers.lua"),
    include_str!("../../../lua/release.lua")
);
const DOWNGRADE: &str = concat!(
    include_str!("../../../lua/queue.lua"),
    include_str!("../../../lua/readers.lua"),
    include_str!("../../../lua/downgrade.lua")
);

/// One hold, by what its client would send.
#[derive(Clone, Debug)]
pub struct ByHand {
    name: String,
    field: String,
    mode: Mode,
}

impl ByHand {
    /// The field is `<UUID of version 8>:<number>`.
    pub fn new(name: &str, field: &str, mode: Mode) -> Self {
        Self {
            name: name.to_owned(),
            field: field.to_owned(),
            mode,
        }
    }

    pub fn field(&self) -> &str {
        &self.field
    }

    /// As its client sends it after a downgrade.
    #[must_use]
    pub fn reading(&self) -> Self {
        Self {
            mode: Mode::Read,
            ..self.clone()
        }
    }

    fn mode(&self) -> &'static str {
        match self.mode {
            Mode::Read => "r",
            Mode::Write => "w",
        }
    }

    fn key(&self, prefix: &str) -> String {
        format!("{prefix}:{{{}}}", self.name)
    }

    fn queue_and_deadlines(&self) -> [String; 2] {
        [self.key("multilock_queue"), self.key("multilock_deadlines")]
    }

    /// The key that keeps the name's readers.
    pub fn readers(&self) -> String {
        self.key("multilock_readers")
    }

    fn script(&self, text: &str, keys: &[&[String]], args: &[&str]) -> Cmd {
        let keys: Vec<&String> = keys.iter().copied().flatten().collect();
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(1 + keys.len()).arg(&self.name);
        command.arg(keys).arg(args);
        command
    }

    /// For somebody who does not wait.
    pub fn acquire(&self, lease: Duration) -> Cmd {
        let [queue, deadlines] = self.queue_and_deadlines();
        let keys = [
            self.key("multilock_revoked"),
            deadlines,
            self.key("multilock_fence"),
            queue,
            self.readers(),
        ];
        let lease = lease.as_millis().to_string();
        let args = [&self.field, "1", &lease, "0", "", "9000000000000000", self.mode()];
        self.script(ACQUIRE, &[&keys], &args)
    }

    pub fn extend(&self, lease: Duration) -> Cmd {
        let mut keys = vec![self.key("multilock_revoked")];
        if self.mode == Mode::Read {
            keys.push(self.readers());
            keys.extend(self.queue_and_deadlines());
        }
        let lease = lease.as_millis().to_string();
        let args = ["0", &self.field, "1", &lease, "1", "0", "0", "0", self.mode()];
        self.script(EXTEND, &[&keys], &args)
    }

    pub fn release(&self) -> Cmd {
        let args = ["rw", &self.field, "0", &self.key("redisson_rwlock")];
        self.script(RELEASE, &[&self.queue_and_deadlines(), &[self.readers()]], &args)
    }

    pub fn downgrade(&self, lease: Duration) -> Cmd {
        let lease = lease.as_millis().to_string();
        let args = [&self.field, lease.as_str()];
        self.script(
            DOWNGRADE,
            &[&self.queue_and_deadlines(), &[self.readers()]],
            &args,
        )
    }
}

/// Whether an acquire was granted, an extension continued, or a release or a downgrade found the hold.
pub fn is_done(answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        Value::Array(parts) => matches!(
            parts[..],
            [Value::Int(1_600_000_000_000_000..), Value::Int(1 | 3), ..]
        ),
        other => panic!("no answer of a script: {other:?}"),
    }
}
