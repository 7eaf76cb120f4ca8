//! How a connection introduces itself to a server.

use redis::{Cmd, RedisConnectionInfo, Value};

use super::pipe::Pipe;
use super::{Class, Fault};
use crate::error::{NodeError, Unfit};

/// The user whose password a URL without a user gives.
const DEFAULT_USER: &str = "default";

/// Logs in; whether the server speaks RESP3, without which it sends no notices.
pub(super) async fn log_in(pipe: &Pipe, settings: &RedisConnectionInfo) -> Result<bool, NodeError> {
    let resp3 = match pipe.ask(&hello(settings)).await {
        Err(fault) if is_unknown_command(&fault) => false,
        answer => {
            answer.map_err(judge)?;
            true
        }
    };
    if let (false, Some(password)) = (resp3, settings.password()) {
        let mut auth = redis::cmd("AUTH");
        auth.arg(settings.username()).arg(password);
        pipe.ask(&auth).await.map_err(|fault| match fault {
            Fault::Server { error, .. } => Unfit::Denied {
                error: error.to_string(),
            }
            .into(),
            other => judge(other),
        })?;
    }
    if settings.db() != 0 {
        let mut select = redis::cmd("SELECT");
        select.arg(settings.db());
        ask(pipe, &select).await?;
    }
    for (what, value) in [("LIB-NAME", "multilock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
        let mut name = redis::cmd("CLIENT");
        name.arg("SETINFO").arg(what).arg(value);
        // Not known before Redis 7.2.
        let _ = pipe.ask(&name).await;
    }
    Ok(resp3)
}

/// Asks what has to be answered before the server can be used.
pub(super) async fn ask(pipe: &Pipe, command: &Cmd) -> Result<Value, NodeError> {
    pipe.ask(command).await.map_err(judge)
}

fn hello(settings: &RedisConnectionInfo) -> Cmd {
    let mut hello = redis::cmd("HELLO");
    hello.arg(3);
    if let Some(password) = settings.password() {
        let user = settings.username().unwrap_or(DEFAULT_USER);
        hello.arg("AUTH").arg(user).arg(password);
    }
    hello
}

/// Whether somebody has to change a configuration before the server can be used.
fn judge(fault: Fault) -> NodeError {
    match fault {
        Fault::Server {
            class: Class::Denied,
            error,
        } => Unfit::Denied {
            error: error.to_string(),
        }
        .into(),
        Fault::Server { error, .. } => NodeError::Unavailable(error.to_string()),
        other => NodeError::Unavailable(other.vote().to_string()),
    }
}

/// As opposed to one that is not let in.
fn is_unknown_command(fault: &Fault) -> bool {
    matches!(fault, Fault::Server { error, .. } if error.to_ascii_lowercase().contains("unknown command"))
}
