//! Values of arguments and variables, as text.

use std::net::SocketAddr;
use std::time::Duration;

use multilock::{Policy, Quarantine};
use rustix::process::Signal;

use crate::run::signals;

const ALLOWED_DURATION: &str =
    "allowed: a duration such as 30s or 50ms, or a number of seconds; at most 100 years";
/// A clock cannot tell times that lie much later than this.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Parses a duration. A number without a unit is one of seconds, as for `flock -w` and `timeout`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    let duration = match seconds {
        Some(seconds) => seconds.ok(),
        None => humantime::parse_duration(text).ok(),
    };
    duration
        .filter(|duration| *duration <= LONGEST)
        .ok_or(ALLOWED_DURATION)
}

/// Parses the time between two looks at the masters.
pub(crate) fn interval(text: &str) -> Result<Duration, &'static str> {
    let interval = duration(text)?;
    if interval < Duration::from_millis(10) {
        return Err("allowed: a duration of 10ms or more");
    }
    Ok(interval)
}

/// Name of a host that browsers see, and its port, unless that is the scheme's own.
#[derive(Clone, Debug)]
pub(crate) struct HostName {
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

/// Parses the name of a host and its port, as a browser sends them.
pub(crate) fn host_name(text: &str) -> Result<HostName, &'static str> {
    const ALLOWED: &str = "allowed: a name, and its port behind a colon, such as locks.example.org:8443";
    let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port.parse().map_err(|_| ALLOWED)?)),
        None => (text, None),
    };
    if name.is_empty() || !name.chars().all(is_of_a_name) {
        return Err(ALLOWED);
    }
    Ok(HostName {
        name: name.to_owned(),
        port,
    })
}

/// Parses a switch, as the library parses its variable.
pub(crate) fn switch(text: &str) -> Result<bool, &'static str> {
    match text.trim() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("allowed: true or false"),
    }
}

/// Refuses a program where none is run.
pub(crate) fn no_program(_: &str) -> Result<String, &'static str> {
    Err("`multilock hold` runs no program; allowed: `multilock run NAME -- COMMAND`, or names before the --")
}

pub(crate) fn policy(text: &str) -> Result<Policy, &'static str> {
    match text.trim() {
        "red" => Ok(Policy::RedLock),
        "multi" => Ok(Policy::MultiLock),
        number => number
            .parse()
            .map(Policy::AtLeast)
            .map_err(|_| "allowed: red, multi or a number of masters"),
    }
}

pub(crate) fn quarantine(text: &str) -> Result<Quarantine, &'static str> {
    match text.trim() {
        "auto" => Ok(Quarantine::Auto),
        "off" => Ok(Quarantine::Off),
        text => duration(text)
            .map(Quarantine::For)
            .map_err(|_| "allowed: auto, off, or a duration such as 40s"),
    }
}

/// Parses a part of a lease. The library knows its bounds.
pub(crate) fn factor(text: &str) -> Result<f64, &'static str> {
    text.trim().parse().map_err(|_| "allowed: a number such as 0.01")
}

/// Parses the address of a page. A host name may have several addresses.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "allowed: an IP address and a port, such as 127.0.0.1:7411 or [::1]:7411")
}

/// Parses a signal: its name, with or without SIG, or its number.
pub(crate) fn signal(text: &str) -> Result<Signal, &'static str> {
    let signal = if let Ok(number) = text.parse() {
        Signal::from_named_raw(number)
    } else {
        let name = text.to_ascii_uppercase();
        signals::named(name.strip_prefix("SIG").unwrap_or(&name))
    };
    signal.ok_or("allowed: a signal such as TERM, SIGINT or 15, but no real-time signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_without_a_unit_are_in_seconds() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("-1"), Err(ALLOWED_DURATION));
        assert_eq!(duration(""), Err(ALLOWED_DURATION));
        assert_eq!(duration("100years"), Ok(Duration::from_secs(3_155_760_000)));
        for text in ["1e19", "1e30", "101years", "inf"] {
            assert_eq!(duration(text), Err(ALLOWED_DURATION), "{text}");
        }
    }

    /// As in variables of the library.
    #[test]
    fn switches_are_words_or_digits() {
        for (text, is_on) in [
            ("yes", true),
            (" on ", true),
            ("1", true),
            ("no", false),
            ("off", false),
            ("0", false),
        ] {
            assert_eq!(switch(text), Ok(is_on), "{text}");
        }
        assert!(switch("maybe").is_err() && switch("").is_err());
    }

    #[test]
    fn hosts_are_names() {
        let parsed = |text| host_name(text).map(|host| (host.name, host.port));
        assert_eq!(
            parsed("locks.example.org"),
            Ok(("locks.example.org".to_owned(), None))
        );
        assert_eq!(parsed("locks:8443"), Ok(("locks".to_owned(), Some(8443))));
        for text in ["", "a:", ":1", "a:70000", "https://a", "a/b"] {
            assert!(host_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        assert_eq!(quarantine(" off "), Ok(Quarantine::Off));
        assert_eq!(factor(" 0.02"), Ok(0.02));
        assert!(address("127.0.0.1:7411").is_ok());
        let refused = [
            quarantine("x").expect_err("no duration"),
            factor("x").expect_err("no number"),
            address("localhost:7411").expect_err("no address"),
        ];
        for (says, words) in refused
            .iter()
            .zip(["auto, off", "a number", "an IP address and a port"])
        {
            assert!(says.starts_with("allowed: ") && says.contains(words), "{says}");
        }
    }

    #[test]
    fn looks_have_a_pause() {
        assert_eq!(interval("10ms"), Ok(Duration::from_millis(10)));
        for text in ["0", "9ms", "soon"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal("PIPE"), signal("13"));
        assert_eq!(signal("sigsys"), Ok(Signal::SYS));
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(signal(text), Ok(Signal::TERM), "{text}");
        }
        assert!(signal("SOON").is_err() && signal("0").is_err());
    }

    #[test]
    fn policies_are_words_or_numbers() {
        assert_eq!(policy("red"), Ok(Policy::RedLock));
        assert_eq!(policy("multi"), Ok(Policy::MultiLock));
        assert_eq!(policy("4"), Ok(Policy::AtLeast(4)));
        assert!(policy("most").is_err());
    }
}
