//! One Redis server, wherever it runs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use redis::{FromRedisValue, Value};

use super::address::Address;
use super::container::Container;
use super::native::Native;

/// Part of a server that survives its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The keys, as after a crash of a master with persistence.
    Data,
    /// Nothing, as after the loss of its disk.
    Nothing,
}

/// A Redis server. A native one ends when this is dropped; a compose master stays, thawed.
///
/// A method that cannot do its work panics: then the test has nothing to say about locks.
#[derive(Debug)]
pub struct Server {
    host: Host,
}

#[derive(Debug)]
enum Host {
    Native(Native),
    Container(Container),
}

impl Server {
    /// A native server with more options, say `["--requirepass", "secret"]`; they win over the usual ones.
    ///
    /// In an option `{dir}` stands for [`dir`](Self::dir) and `{tls_port}` for [`tls_port`](Self::tls_port).
    /// The plain port must stay open: the tests look at the server through it.
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_with_env(args, &[]).await
    }

    /// As [`start_with`](Self::start_with), with more environment, in which `{dir}` stands for the same.
    pub async fn start_with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let env = env
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Self::native(&args, &env.collect::<Vec<_>>())
            .await
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub(super) async fn native(args: &[String], env: &[(String, String)]) -> Result<Self> {
        Ok(Self {
            host: Host::Native(Native::start(args, env).await?),
        })
    }

    pub(super) async fn container(number: usize) -> Result<Self> {
        Ok(Self {
            host: Host::Container(Container::take(number).await?),
        })
    }

    /// Its address, with the password if it wants one.
    pub fn url(&self) -> String {
        self.address().url()
    }

    pub fn port(&self) -> u16 {
        self.address().port
    }

    /// The port that `{tls_port}` stood for. Of a native server only.
    pub fn tls_port(&self) -> u16 {
        self.as_native().tls_port
    }

    /// A directory that lives as long as the server. Of a native server only.
    pub fn dir(&self) -> &Path {
        self.as_native().dir()
    }

    /// The process, unless killed. Of a native server only.
    pub fn pid(&self) -> Option<u32> {
        self.as_native().pid()
    }

    /// Stops the server as it is: the system still takes connections and bytes for it, nothing answers.
    pub async fn freeze(&self) {
        done(match &self.host {
            Host::Native(native) => native.freeze(),
            Host::Container(container) => container.freeze().await,
        });
    }

    /// Lets a frozen server go on, with all commands that have arrived meanwhile.
    pub async fn thaw(&self) {
        done(match &self.host {
            Host::Native(native) => native.thaw(),
            Host::Container(container) => container.thaw().await,
        });
    }

    /// Kills the server without a word to its clients but the end of their connections, and waits for its end.
    pub async fn kill(&self) {
        done(match &self.host {
            Host::Native(native) => native.kill(),
            Host::Container(container) => container.kill().await,
        });
    }

    /// Starts the server again on the same port and waits until it answers. Kills it first if it still runs.
    pub async fn restart(&self, keep: Keep) {
        let keep_data = keep == Keep::Data;
        done(match &self.host {
            Host::Native(native) => native.restart(keep_data).await,
            Host::Container(container) => container.restart(keep_data).await,
        });
    }

    /// One command over a connection of its own. An error from the server panics too; see [`try_command`](Self::try_command).
    pub async fn command(&self, args: &[&str]) -> Value {
        done(self.try_command(args).await)
    }

    /// As [`command`](Self::command), for a server that may be frozen or dead, or a command it may refuse.
    pub async fn try_command(&self, args: &[&str]) -> Result<Value> {
        self.address().command(args).await
    }

    pub async fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).await
    }

    pub async fn hgetall(&self, key: &str) -> BTreeMap<String, String> {
        self.ask(&["HGETALL", key]).await
    }

    /// The milliseconds the key has to live; -1 if it has no end, -2 if there is no such key.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    /// All keys of locks, sorted. Left out are the largest fencing tokens, which are meant to outlast the locks, and
    /// the keys of the set of masters and of clients.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        keys.retain(|key| !key.starts_with("multilock_fence:"));
        keys.retain(|key| key != "multilock_set");
        keys.retain(|key| !key.starts_with("multilock_client:"));
        keys.sort();
        keys
    }

    pub async fn flushall(&self) {
        self.command(&["FLUSHALL"]).await;
    }

    /// How often the server has run each command, by its name in lower case (`evalsha`, `config|resetstat`).
    ///
    /// Commands of the tests are counted as well, except this question itself. Under compose, the `ping` of the
    /// health check is counted, too.
    pub async fn commandstats(&self) -> BTreeMap<String, u64> {
        let info: String = self.ask(&["INFO", "commandstats"]).await;
        info.lines().filter_map(calls).collect()
    }

    pub async fn reset_stats(&self) {
        self.command(&["CONFIG", "RESETSTAT"]).await;
    }

    async fn ask<T: FromRedisValue>(&self, args: &[&str]) -> T {
        done(self.address().ask(args).await)
    }

    fn address(&self) -> &Address {
        match &self.host {
            Host::Native(native) => &native.address,
            Host::Container(container) => &container.address,
        }
    }

    fn as_native(&self) -> &Native {
        match &self.host {
            Host::Native(native) => native,
            Host::Container(_) => panic!("only a native server has this; use Server::start_with"),
        }
    }
}

/// Reads `cmdstat_get:calls=3,usec=…`.
fn calls(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    Some((name.to_owned(), calls.parse().ok()?))
}

#[track_caller]
fn done<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error:#}"))
}
