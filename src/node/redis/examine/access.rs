//! Commands that a server denies to the user.

use futures::future::join_all;
use redis::{Cmd, Value};

use crate::admin::examination::{Denial, DeniedCommand};
use crate::node::redis::pipeline::Pipe;
use crate::node::redis::server::NOBODY;
use crate::protocol::calls;
use crate::protocol::fault::{Fault, FaultClass, is_unknown_command};
use crate::protocol::keys::{fair_channels, revocation_mark};
use crate::protocol::permissions;
use crate::protocol::text::text;

/// Placeholder for the channels of clients.
const CHANNEL: &str = "multilock:examined";

/// A command that clients send outside of scripts.
struct NeededCommand {
    /// Name of the command in an ACL.
    name: &'static str,
    command: Cmd,
}

/// Commands that bring a script to the server. A client needs one of them.
const LOADING: [&str; 2] = ["eval", "script|load"];

/// Commands that clients send beside AUTH, HELLO, INFO, SELECT and TIME, which have been run before. None of them
/// changes anything: every client loads the script. With `beside_redisson`, the commands for that option are among
/// them.
fn wanted(connection_name: &str, beside_redisson: bool) -> Vec<NeededCommand> {
    let wanted = |name: &'static str, words: &[&str]| {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        NeededCommand { name, command }
    };
    let (key, nobody) = (revocation_mark("").text(), NOBODY.to_string());
    let load = NeededCommand {
        name: LOADING[1],
        command: calls::ALL[0].load(),
    };
    let mut all = vec![
        wanted("evalsha", &["EVALSHA", &"0".repeat(40), "1", &key]),
        wanted(LOADING[0], &["EVAL", "return 1", "1", &key]),
        load,
        wanted("client|id", &["CLIENT", "ID"]),
        wanted("client|kill", &["CLIENT", "KILL", "ID", &nobody]),
        wanted("client|setname", &["CLIENT", "SETNAME", connection_name]),
        wanted("client|setinfo", &["CLIENT", "SETINFO", "LIB-NAME", "multilock"]),
        // Over RESP2 a connection takes no other command between these two.
        wanted("subscribe", &["SUBSCRIBE", CHANNEL]),
        wanted("unsubscribe", &["UNSUBSCRIBE", CHANNEL]),
    ];
    if beside_redisson {
        let pattern = fair_channels("");
        all.push(wanted("psubscribe", &["PSUBSCRIBE", &pattern]));
        all.push(wanted("punsubscribe", &["PUNSUBSCRIBE", &pattern]));
    }
    all
}

/// Denied commands: by `ACL DRYRUN` if the user may run that, and else by running the commands; inside
/// scripts by the probe.
pub(super) async fn denied(
    pipe: &Pipe,
    connection_name: &str,
    probed: &[String],
    beside_redisson: bool,
) -> Vec<DeniedCommand> {
    let all = wanted(connection_name, beside_redisson);
    let mut denied = match dry_run(pipe, &all).await {
        Some(denied) => denied,
        None => by_running(pipe, &all).await,
    };
    let lacks = |name: &str| denied.iter().any(|lacking| lacking.name == name);
    let loads = !LOADING.iter().all(|name| lacks(name));
    for lacking in &mut denied {
        lacking.is_needed = lacking.name == "evalsha" || (!loads && LOADING.contains(&&*lacking.name));
    }
    let in_scripts = in_scripts(pipe, beside_redisson)
        .await
        .into_iter()
        .map(|name| (name, false));
    let in_scripts = probed.iter().cloned().map(|name| (name, true)).chain(in_scripts);
    denied.extend(in_scripts.map(|(name, is_needed)| DeniedCommand {
        is_needed,
        ..DeniedCommand::new(&name, Denial::InScript)
    }));
    denied
}

/// Commands that the server denies by `ACL DRYRUN`; `None` if the user may not run that.
async fn dry_run(pipe: &Pipe, all: &[NeededCommand]) -> Option<Vec<DeniedCommand>> {
    let user = text(&pipe.ask(redis::cmd("ACL").arg("WHOAMI")).await.ok()?)?;
    let asking = all.iter().map(|wanted| {
        let mut dry = redis::cmd("ACL");
        dry.arg("DRYRUN").arg(&user);
        for word in wanted.command.args_iter() {
            if let redis::Arg::Simple(word) = word {
                dry.arg(word);
            }
        }
        pipe.ask(&dry)
    });
    let mut denied = Vec::new();
    for (wanted, answer) in all.iter().zip(join_all(asking).await) {
        match answer {
            Ok(Value::Okay) => {}
            Ok(answer) => {
                let why = Denial::by(&text(&answer).unwrap_or_default());
                denied.push(DeniedCommand::new(wanted.name, why));
            }
            // Redis before 7.0 does not have `ACL DRYRUN`.
            Err(Fault::Server(class, error)) if class == FaultClass::Denied || is_unknown(&error) => {
                return None;
            }
            // A command that the server does not have is not denied.
            Err(_) => {}
        }
    }
    Some(denied)
}

fn is_unknown(error: &str) -> bool {
    is_unknown_command(error) || error.to_ascii_lowercase().contains("unknown subcommand")
}

async fn by_running(pipe: &Pipe, all: &[NeededCommand]) -> Vec<DeniedCommand> {
    let answers = join_all(all.iter().map(|wanted| pipe.ask(&wanted.command))).await;
    let denied = all
        .iter()
        .zip(answers)
        .filter_map(|(wanted, answer)| match answer {
            Err(Fault::Server(FaultClass::Denied, error)) => {
                Some(DeniedCommand::new(wanted.name, Denial::by(&error)))
            }
            _ => None,
        });
    denied.collect()
}

/// Denied commands that scripts can do without.
async fn in_scripts(pipe: &Pipe, beside_redisson: bool) -> Vec<String> {
    let answer = pipe.ask(&permissions::probe_wanted(beside_redisson)).await;
    let mut denied = answer.as_ref().map(permissions::denied).unwrap_or_default();
    // The probe itself needs `del`, which the other probe has checked.
    denied.retain(|name| name != "del");
    denied
}

impl DeniedCommand {
    fn new(name: &str, why: Denial) -> Self {
        Self {
            name: name.to_owned(),
            why,
            is_needed: false,
        }
    }
}

impl Denial {
    /// Kind of a denial by the server's error. The error is not repeated: it may name the user.
    fn by(error: &str) -> Self {
        if error.contains("channel") {
            Self::Channel
        } else if error.contains(" key") {
            Self::Key
        } else {
            Self::Command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_is_found_in_the_words_of_servers() {
        for (words, why) in [
            (
                "User app has no permissions to run the 'evalsha' command",
                Denial::Command,
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
                Denial::Command,
            ),
            ("NOPERM No permissions to access a key", Denial::Key),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                Denial::Key,
            ),
            (
                "User app has no permissions to access the 'multilock:connected' channel",
                Denial::Channel,
            ),
        ] {
            assert_eq!(Denial::by(words), why, "{words}");
        }
    }
}
