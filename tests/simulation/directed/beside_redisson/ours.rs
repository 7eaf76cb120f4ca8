//! The scripts of a read/write lock as a client of ours sends them, for one unfenced hold.

use std::time::Duration;

use multilock_test_support::scripts::{ACQUIRE, DOWNGRADE, EXTEND, RELEASE};

use super::theirs::NAME;
use super::walk::Master;

/// A message that a client of ours has sent, or will send.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) script: &'static str,
    pub(crate) owner: String,
    keys: Vec<&'static str>,
    pub(crate) args: Vec<String>,
}

pub(crate) const READERS: &str = "multilock_readers:{a}";
const MARK: &str = "multilock_revoked:{a}";
const QUEUE: &str = "multilock_queue:{a}";
const DEADLINES: &str = "multilock_deadlines:{a}";
const FENCE: &str = "multilock_fence:{a}";

impl Message {
    fn new(script: &'static str, owner: &str, keys: &[&'static str], args: &[&str]) -> Self {
        Self {
            script,
            owner: owner.to_owned(),
            keys: keys.to_vec(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        }
    }

    pub(crate) fn acquire(owner: &str, reads: bool, lease: Duration) -> Self {
        let (lease, mode) = (lease.as_millis().to_string(), if reads { "r" } else { "w" });
        let keys = [NAME, MARK, DEADLINES, FENCE, READERS];
        Self::new(ACQUIRE, owner, &keys, &[owner, &lease, "", mode])
    }

    pub(crate) fn extend(owner: &str, reads: bool, lease: Duration) -> Self {
        let (lease, mode) = (lease.as_millis().to_string(), if reads { "r" } else { "w" });
        let keys: &[&str] = if reads {
            &[NAME, MARK, READERS, QUEUE, DEADLINES]
        } else {
            &[NAME, MARK]
        };
        let args = ["0", owner, "1", &lease, "1", "0", "0", "0", mode];
        Self::new(EXTEND, owner, keys, &args)
    }

    /// Only a client with the option `beside_redisson` announces it.
    pub(crate) fn release(owner: &str, announces: bool) -> Self {
        let keys = [NAME, DEADLINES, READERS];
        let args = ["rw", owner, "announce", "redisson_rwlock:{a}"];
        Self::new(RELEASE, owner, &keys, if announces { &args } else { &args[..2] })
    }

    pub(crate) fn downgrade(owner: &str, lease: Duration) -> Self {
        let lease = lease.as_millis().to_string();
        let keys = [NAME, QUEUE, DEADLINES, READERS];
        Self::new(DOWNGRADE, owner, &keys, &[owner, &lease])
    }

    /// Whether it was granted, has continued, or has found the hold.
    pub(crate) async fn run(&self, master: &impl Master) -> bool {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let reply = master.run_script(self.script, &self.keys, &args).await;
        match self.script {
            ACQUIRE => reply.len() == 1,
            EXTEND => matches!(reply[1].as_str(), "1" | "3") && reply.len() == 2,
            _ => reply == ["1"],
        }
    }
}
