//! Label of a client, by which people recognise the holder of a lock.

use std::sync::Arc;

use crate::error::{InvalidInput, is_shown};

/// Longest label, in bytes.
const MAX_BYTES: usize = 128;

pub(crate) fn check(label: Option<&str>) -> Result<(), InvalidInput> {
    match label {
        Some(text) => InvalidInput::unless_shown("client_label", "a label", text, MAX_BYTES),
        None => Ok(()),
    }
}

/// The label as set, or `program@host:pid`.
pub(crate) fn text(label: Option<&str>) -> Arc<str> {
    label.map_or_else(of_process, Into::into)
}

/// Parses a label from a master, which is any text; `None` if no client of this crate can have it.
pub(crate) fn parse(text: &str) -> Option<Arc<str>> {
    is_shown(text, MAX_BYTES).then(|| text.into())
}

fn of_process() -> Arc<str> {
    let path = std::env::current_exe().unwrap_or_default();
    let program = path.file_stem().unwrap_or_default().to_string_lossy();
    composed(&program, &host(), std::process::id()).into()
}

/// Label of these parts; program and host are cut to the room that there is.
fn composed(program: &str, host: &str, process: u32) -> String {
    let end = format!(":{process}");
    let host = shown(host, MAX_BYTES / 2);
    let program = shown(program, MAX_BYTES - 1 - host.len() - end.len());
    format!("{program}@{host}{end}")
}

fn shown(text: &str, most: usize) -> String {
    let shown = text.chars().filter(|symbol| !symbol.is_control());
    let mut room = most;
    let fits = |symbol: &char| {
        let left = room.checked_sub(symbol.len_utf8());
        room = left.unwrap_or(0);
        left.is_some()
    };
    shown.take_while(fits).collect()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_what_it_was_set_to() {
        assert_eq!(&*text(Some("billing@host:1")), "billing@host:1");
        let check = |text: &str| check(Some(text)).map_err(|error| error.to_string());
        assert_eq!(check("the münchen job"), Ok(()));
        assert_eq!(check(&"x".repeat(128)), Ok(()));
        for (text, value) in [
            (String::new(), "\"\""),
            ("a\nb".into(), "\"a\\nb\""),
            ("x".repeat(129), "a label of 129 bytes"),
        ] {
            let error = format!(
                "client_label: {value} is not allowed; allowed: 1 to 128 bytes without control characters"
            );
            assert_eq!(check(&text), Err(error));
            assert_eq!(parse(&text), None, "no client has it");
        }
    }

    #[test]
    fn without_one_it_names_the_process() {
        let label = text(None);
        assert!(
            label.starts_with("multilock") && parse(&label).is_some(),
            "{label}"
        );
        assert!(label.ends_with(&format!(":{}", std::process::id())), "{label}");
        assert!(
            label.contains(&format!("@{}:", host())) && !host().is_empty(),
            "{label}"
        );
        assert_eq!(composed("a\tb", "c", 7), "ab@c:7");
        let long = composed(&"ä".repeat(200), &"h".repeat(64), u32::MAX);
        assert!(
            parse(&long).is_some_and(|long| long.len() >= MAX_BYTES - 1),
            "{long}"
        );
        assert!(long.ends_with(&format!("ä@{}:4294967295", "h".repeat(64))));
    }
}
