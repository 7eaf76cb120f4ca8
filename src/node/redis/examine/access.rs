//! Which commands a server denies to the user.

use futures::future::join_all;
use redis::{Cmd, Value};

use crate::admin::examination::{Denial, DeniedCommand};
use crate::node::redis::pipeline::Pipe;
use crate::node::redis::questions::text;
use crate::node::redis::server::NOBODY;
use crate::protocol::calls;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::keys::revocation_mark;
use crate::protocol::permissions;

/// Stands for the channels of clients.
const CHANNEL: &str = "multilock:examined";

/// A command that clients send outside of scripts.
struct NeededCommand {
    /// As an ACL names it.
    name: &'static str,
    command: Cmd,
}

/// By one of these a script gets to the server; without both none does.
const LOADING: [&str; 2] = ["eval", "script|load"];

/// What clients send beside AUTH, HELLO, INFO, SELECT and TIME, which have been run before. None of it changes anything: the script
/// is one that every client loads.
fn wanted(connection_name: &str) -> [NeededCommand; 9] {
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
    [
        wanted("evalsha", &["EVALSHA", &"0".repeat(40), "1", &key]),
        wanted(LOADING[0], &["EVAL", "return 1", "1", &key]),
        load,
        wanted("client|id", &["CLIENT", "ID"]),
        wanted("client|kill", &["CLIENT", "KILL", "ID", &nobody]),
        wanted("client|setname", &["CLIENT", "SETNAME", connection_name]),
        wanted("client|setinfo", &["CLIENT", "SETINFO", "LIB-NAME", "multilock"]),
        // Over RESP2 a connection takes nothing between these two.
        wanted("subscribe", &["SUBSCRIBE", CHANNEL]),
        wanted("unsubscribe", &["UNSUBSCRIBE", CHANNEL]),
    ]
}

/// What is denied: by `ACL DRYRUN`, where the user may ask that, and else by running it; and inside of scripts what the probe
/// found to be.
pub(super) async fn denied(pipe: &Pipe, connection_name: &str, probed: &[String]) -> Vec<DeniedCommand> {
    let all = wanted(connection_name);
    let mut denied = match dry_run(pipe, &all).await {
        Some(denied) => denied,
        None => by_running(pipe, &all).await,
    };
    let lacks = |name: &str| denied.iter().any(|lacking| lacking.name == name);
    let loads = !LOADING.iter().all(|name| lacks(name));
    for lacking in &mut denied {
        lacking.is_needed = lacking.name == "evalsha" || (!loads && LOADING.contains(&&*lacking.name));
    }
    let in_scripts = in_scripts(pipe).await.into_iter().map(|name| (name, false));
    let in_scripts = probed.iter().cloned().map(|name| (name, true)).chain(in_scripts);
    denied.extend(in_scripts.map(|(name, is_needed)| DeniedCommand {
        is_needed,
        ..DeniedCommand::new(&name, Denial::InScript)
    }));
    denied
}

/// What the server says that the user may not run; `None` where he may not ask.
async fn dry_run(pipe: &Pipe, all: &[NeededCommand]) -> Option<Vec<DeniedCommand>> {
    let mut who = redis::cmd("ACL");
    let user = text(&pipe.ask(who.arg("WHOAMI")).await.ok()?)?;
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
            // Before Redis 7.0 nobody can ask that.
            Err(Fault::Server { class, error }) if class == FaultClass::Denied || is_unknown(&error) => {
                return None;
            }
            // A command that the server does not have is denied to nobody.
            Err(_) => {}
        }
    }
    Some(denied)
}

fn is_unknown(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    error.contains("unknown subcommand") || error.contains("unknown command")
}

async fn by_running(pipe: &Pipe, all: &[NeededCommand]) -> Vec<DeniedCommand> {
    let answers = join_all(all.iter().map(|wanted| pipe.ask(&wanted.command))).await;
    let denied = all
        .iter()
        .zip(answers)
        .filter_map(|(wanted, answer)| match answer {
            Err(Fault::Server {
                class: FaultClass::Denied,
                error,
            }) => Some(DeniedCommand::new(wanted.name, Denial::by(&error))),
            _ => None,
        });
    denied.collect()
}

/// What scripts run that they can do without.
async fn in_scripts(pipe: &Pipe) -> Vec<String> {
    let answer = pipe.ask(&permissions::probe_wanted()).await;
    let mut denied = answer.as_ref().map(permissions::denied).unwrap_or_default();
    // It is what the probe itself needs, which the other one has told.
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
    /// By the server's words, which are not to be repeated: they may name the user.
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
    fn what_is_denied_is_told_by_the_words_of_servers() {
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
