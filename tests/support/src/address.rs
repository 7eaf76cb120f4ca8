//! Address of a server, and the questions of tests to it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, FromRedisValue, IntoConnectionInfo, Value};
use tokio::time::{Instant, sleep};

use super::locks::WITHIN;

/// Time that a server has for one answer while it is waited for.
const ONE_LOOK: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Address {
    pub port: u16,
    /// Goes into the URL as it is: letters and digits only.
    pub password: Option<String>,
}

impl Address {
    pub fn url(&self) -> String {
        let password = self
            .password
            .as_ref()
            .map_or(String::new(), |word| format!(":{word}@"));
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    /// One command over a connection of its own, so that no test looks at a server through the code it tests.
    pub async fn command(&self, args: &[&str]) -> Result<Value> {
        let (name, rest) = args.split_first().context("a command has a name")?;
        let mut command = redis::cmd(name);
        for arg in rest {
            command.arg(arg);
        }
        // One bound for the whole command replaces the bounds of the client library, such as half a second for an
        // answer.
        let unbounded = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let asked = async {
            let mut connection = Client::open(self.connection_info()?)?
                .get_multiplexed_async_connection_with_config(&unbounded)
                .await?;
            command.query_async(&mut connection).await
        };
        let answer: redis::RedisResult<Value> = tokio::time::timeout(WITHIN, asked)
            .await
            .with_context(|| format!("{args:?}: no answer within {WITHIN:?} from {}", self.url()))?;
        answer.with_context(|| format!("{args:?} to {}", self.url()))
    }

    pub async fn ask<T: FromRedisValue>(&self, args: &[&str]) -> Result<T> {
        let value = self.command(args).await?;
        redis::from_redis_value(value).with_context(|| format!("{args:?}: an unexpected answer"))
    }

    /// The client must not announce itself: the tests count the commands a server has seen.
    fn connection_info(&self) -> redis::RedisResult<ConnectionInfo> {
        let info = self.url().into_connection_info()?;
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(info.set_redis_settings(settings))
    }

    /// Waits until the server has loaded its data and answers.
    ///
    /// `pid` is the process that must answer: on a port taken between the choice and the start,
    /// the answer comes from another server. `check` can end the wait early.
    pub async fn until_ready(&self, pid: Option<u32>, mut check: impl FnMut() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            check()?;
            // The proxy of a container that starts may accept a connection that nobody ever answers.
            let asked = tokio::time::timeout(ONE_LOOK, self.ask::<String>(&["INFO"])).await;
            let seen = match asked {
                Ok(Ok(info)) if is_ready(&info, pid) => return Ok(()),
                Ok(Ok(_)) => "it loads its data, or another process has the port".to_owned(),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => format!("no answer within {ONE_LOOK:?}"),
            };
            if Instant::now() > deadline {
                bail!("no server is ready at {} within {WITHIN:?}: {seen}", self.url());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn is_ready(info: &str, pid: Option<u32>) -> bool {
    let has = |line: &str| info.lines().any(|found| found == line);
    has("loading:0") && pid.is_none_or(|pid| has(&format!("process_id:{pid}")))
}
