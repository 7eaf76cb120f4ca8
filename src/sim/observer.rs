//! Watching, and meddling with, single calls to the masters in memory.

use std::fmt;
use std::time::Duration;

/// One script call on its way to a master.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The master, counted from 0.
    pub master: usize,
    /// The connection to that master, counted over all clients.
    pub connection: i64,
    /// The script, such as `"acquire"`.
    pub script: &'static str,
    /// Its keys and its arguments, as the master gets them.
    pub keys: Vec<String>,
    /// As above.
    pub args: Vec<String>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It arrives and is answered.
    #[default]
    Delivered,
    /// It takes this much longer to get there; what is sent after it waits behind it.
    RequestDelayed(Duration),
    /// Its reply takes this much longer; later ones wait behind it.
    ReplyDelayed(Duration),
    /// It is executed, and its reply never comes.
    ReplyLost,
    /// The master's connections break before it arrives.
    ResetBefore,
    /// The master's connections break after it was executed, before the reply leaves.
    ResetAfter,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments hold owner fields, which are credentials.
        write!(f, "{} of {:?} on {}", self.script, self.keys, self.master)
    }
}
