//! Inspection of a master in memory by tests.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Master, lua, texts};
use crate::protocol::keys::{CLIENT, SET};

impl Master {
    /// Runs one command at once in spite of all faults, such as `["PTTL", "a"]`. Returns its reply as a flat
    /// list of texts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// let _guard = masters.multi_lock("a").lock().await?;
    /// assert_eq!(cluster.master(0).command(&["TYPE", "a"])?, ["hash"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Error line of the server.
    pub fn command(&self, words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let is_full = std::mem::take(&mut state.store.oom);
        let reply = state.store.call(now, &words);
        state.store.oom = is_full;
        state.deliver_published();
        reply.map(texts)
    }

    /// Runs one Lua script at once in spite of all faults, as `EVAL` does. Returns its reply as a flat list
    /// of texts.
    ///
    /// # Errors
    ///
    /// Error line of the server.
    pub fn eval(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Vec<String>, String> {
        let bytes = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let is_full = std::mem::take(&mut state.store.oom);
        let reply = lua::eval(&mut state.store, now, script, &bytes(keys), &bytes(args));
        state.store.oom = is_full;
        state.deliver_published();
        reply.map(texts)
    }

    /// Names of all keys, without the record of the set and the labels of clients.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.command(&["KEYS", "*"]).unwrap_or_default();
        keys.retain(|key| key != SET && !key.starts_with(CLIENT));
        keys
    }

    /// Names of all keys without the fences, the numbers of permits, the marks of jobs that are done, and the last forces,
    /// which outlast the locks by design.
    pub fn locks(&self) -> Vec<String> {
        let outlast = [
            "multilock_fence:",
            "multilock_permits:",
            "multilock_done:",
            "multilock_forced:",
        ];
        let mut keys = self.keys();
        keys.retain(|key| !outlast.iter().any(|beginning| key.starts_with(beginning)));
        keys
    }

    /// Owner fields and hold counts under a lock's name, in turn.
    pub fn fields(&self, name: &str) -> Vec<String> {
        self.command(&["HGETALL", name]).unwrap_or_default()
    }

    /// Time left to a key; `None` if it does not exist or has no expiry.
    pub fn time_left(&self, key: &str) -> Option<Duration> {
        let left = self.command(&["PTTL", key]).ok()?.first()?.parse().ok()?;
        Some(Duration::from_millis(left))
    }

    /// Channels and patterns that any client listens to.
    pub fn channels(&self) -> Vec<String> {
        self.state()
            .store
            .receivers
            .keys()
            .map(|(_, channel)| String::from_utf8_lossy(channel).into_owned())
            .collect()
    }

    /// Number of executions of each of the crate's scripts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// masters.multi_lock("a").try_lock().await?.unlock().await?;
    /// assert_eq!(cluster.master(0).executed()["acquire"], 1);
    /// assert_eq!(cluster.master(0).executed()["release"], 1);
    /// # Ok(()) }
    /// ```
    pub fn executed(&self) -> BTreeMap<&'static str, u64> {
        self.state().executed.clone()
    }
}
