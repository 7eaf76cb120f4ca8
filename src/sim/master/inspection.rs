//! What a test looks at of a master in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Master, texts};
use crate::protocol::keys::{CLIENT, SET};

impl Master {
    /// Runs one command at once, whatever the faults, such as `["PTTL", "a"]`; its reply as a flat
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
    /// The server's error line.
    pub fn command(&self, words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let reply = state.store.call(now, &words);
        state.deliver_published();
        reply.map(texts)
    }

    /// Runs one Lua script at once, whatever the faults, as `EVAL` does; its reply as a flat list of
    /// texts.
    ///
    /// # Errors
    ///
    /// The server's error line.
    pub fn eval(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Vec<String>, String> {
        let bytes = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let reply = self
            .inner
            .lua
            .eval(&mut state.store, now, script, &bytes(keys), &bytes(args));
        state.deliver_published();
        reply.map(texts)
    }

    /// The names of all keys but those that belong to the set of masters, its record, or to a client: its label.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.command(&["KEYS", "*"]).unwrap_or_default();
        keys.retain(|key| key != SET && !key.starts_with(CLIENT));
        keys
    }

    /// The names of all keys but the largest fencing tokens, which are meant to outlast the locks.
    pub fn locks(&self) -> Vec<String> {
        self.keys()
            .into_iter()
            .filter(|key| !key.starts_with("multilock_fence:"))
            .collect()
    }

    /// The owner fields and hold counts under a lock's name, in turn.
    pub fn fields(&self, name: &str) -> Vec<String> {
        self.command(&["HGETALL", name]).unwrap_or_default()
    }

    /// Time left to a key; `None` when it is absent or has no expiry.
    pub fn time_left(&self, key: &str) -> Option<Duration> {
        let left = self.command(&["PTTL", key]).ok()?.first()?.parse().ok()?;
        Some(Duration::from_millis(left))
    }

    /// The channels that any client listens to, as `PUBSUB CHANNELS` shows them.
    pub fn channels(&self) -> Vec<String> {
        self.state()
            .store
            .receivers
            .keys()
            .map(|channel| String::from_utf8_lossy(channel).into_owned())
            .collect()
    }

    /// How many times each of the crate's scripts was executed.
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
