//! Whose connections a master has.

use std::sync::Arc;

use crate::error::Objection;
use crate::node::{ClientLine, POOL};

/// What a connection may have run last that has told its charter: scripts, and what keeps it up. One that has not run
/// anything of that yet tells its charter before it asks for anything.
const OURS: [&str; 7] = [
    "eval",
    "evalsha",
    "script",
    "script|load",
    "subscribe",
    "unsubscribe",
    "auth",
];

/// What `CLIENT LIST` says against a reset. `own` and `id` are how the connection is called that has asked, and its number
/// where the server says it: where that is not in it, nor need be the names of others.
pub(super) fn objections(list: &str, own: &str, id: Option<i64>) -> Vec<Objection> {
    let lines: Vec<ClientLine> = ClientLine::all(list).collect();
    let is_own =
        |line: &ClientLine| line.get("name") == own && id.is_none_or(|id| line.get("id") == id.to_string());
    if !lines.iter().any(is_own) {
        let error = "it does not show the name of the connection that asks; allow CLIENT SETNAME";
        return vec![Objection::ClientsHidden {
            error: error.to_owned(),
        }];
    }
    lines.iter().filter_map(objection).collect()
}

fn objection(line: &ClientLine) -> Option<Objection> {
    let address: Arc<str> = line.get("addr").into();
    let (name, library, command) = (line.get("name"), line.get("lib-name"), line.get("cmd"));
    if name.starts_with(POOL) || library == "multilock" && name.is_empty() {
        return Some(Objection::Connected { address });
    }
    // Its user may be one that is denied a name.
    let may_be_ours = name.is_empty() && library.is_empty() && OURS.contains(&command);
    may_be_ours.then(|| Objection::Nameless {
        address,
        command: command.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "id=9 addr=127.0.0.1:9 laddr=127.0.0.1:6379 fd=8 name=multilock-charter:x age=0 cmd=client|list user=default";

    fn seen(line: &str) -> Vec<String> {
        let list = format!("{OWN}\n{line}\n");
        let seen = objections(&list, "multilock-charter:x", Some(9)).into_iter();
        seen.map(|objection| objection.to_string()).collect()
    }

    #[test]
    fn clients_are_seen_by_the_names_of_their_connections() {
        let client = "id=1 addr=10.0.0.7:4 fd=9 name=multilock:0195-8a:3 age=1 idle=1 cmd=evalsha user=app lib-name=multilock";
        assert_eq!(seen(client), ["a client is connected from 10.0.0.7:4"]);
        let unnamed = "id=1 addr=10.0.0.7:4 name= cmd=info lib-name=multilock lib-ver=0.1.0";
        assert_eq!(seen(unnamed), ["a client is connected from 10.0.0.7:4"]);
        // Others, with and without a name; and another operator.
        for other in [
            "id=1 addr=10.0.0.7:4 name= cmd=get lib-name=",
            "id=1 addr=10.0.0.7:4 name= cmd=ping",
            "id=1 addr=10.0.0.7:4 name= cmd=evalsha lib-name=redisson",
            "id=1 addr=10.0.0.7:4 name=billing cmd=evalsha",
            "id=1 addr=10.0.0.7:4 name=multilock-charter:y cmd=eval",
            "",
        ] {
            assert_eq!(seen(other), [""; 0], "{other}");
        }
    }

    #[test]
    fn whoever_may_be_denied_a_name_is_told() {
        for command in OURS {
            let line = format!("id=1 addr=10.0.0.7:4 name= cmd={command} user=app");
            let seen = seen(&line);
            assert!(
                seen.len() == 1 && seen[0].contains("10.0.0.7:4") && seen[0].contains(command),
                "{seen:?}"
            );
        }
    }

    #[test]
    fn without_names_nothing_can_be_told() {
        for list in [
            "",
            "id=9 addr=127.0.0.1:9 name= cmd=client",
            &OWN.replace(":x", ":y"),
            &OWN.replace("id=9", "id=8"),
        ] {
            let told = objections(list, "multilock-charter:x", Some(9));
            assert!(
                matches!(told[..], [Objection::ClientsHidden { .. }]),
                "{list}: {told:?}"
            );
        }
    }
}
