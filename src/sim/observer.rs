//! Observation and disturbance of single calls to the masters in memory.

use std::fmt;
use std::time::Duration;

/// One script call on its way to a master.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Index of the master, from 0.
    pub master: usize,
    /// Number of the connection to that master, counted over all clients.
    pub connection: i64,
    /// Name of the script's operation, such as `"acquire"`.
    pub script: &'static str,
    /// Keys, as the master gets them.
    pub keys: Vec<String>,
    /// Arguments, as the master gets them.
    pub args: Vec<String>,
}

/// Fate of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// The call arrives and is answered.
    #[default]
    Delivered,
    /// The call arrives later by this time. Calls that are sent after it wait behind it.
    RequestDelayed(Duration),
    /// The reply comes later by this time. Later replies wait behind it.
    ReplyDelayed(Duration),
    /// The call is executed, and its reply never comes.
    ReplyLost,
    /// The master's connections break before the call arrives.
    ResetBefore,
    /// The master's connections break after the call was executed, before the reply leaves.
    ResetAfter,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments contain owner fields, which are credentials.
        write!(f, "{} of {:?} on {}", self.script, self.keys, self.master)
    }
}
