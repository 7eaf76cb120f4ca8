//! URLs and the environment: no panic, and no password in anything that is said of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use multilock::fuzzing::words_on;

/// Each has the line of the input at its place. `MULTILOCK_NODES`, the URLs, is made of all lines before; they are in the
/// file where one is named.
const NAMES: [&str; 24] = [
    "MULTILOCK_LEASE",
    "MULTILOCK_FOR_TESTS",
    "MULTILOCK_NODE_TIMEOUT",
    "MULTILOCK_CONNECT_TIMEOUT",
    "MULTILOCK_DRIFT_FACTOR",
    "MULTILOCK_QUARANTINE",
    "MULTILOCK_ROUNDS",
    "MULTILOCK_ALLOW_EVICTION",
    "MULTILOCK_ALLOW_UNKNOWN_EVICTION",
    "MULTILOCK_ALLOW_UNKNOWN_ROLE",
    "MULTILOCK_STRICT",
    "MULTILOCK_NAMESPACE",
    "MULTILOCK_NODES_FILE",
    "MULTILOCK_NODE_LABELS",
    "MULTILOCK_USER",
    "MULTILOCK_PASSWORD",
    "MULTILOCK_PASSWORD_FILE",
    "MULTILOCK_TLS_CA_FILE",
    "MULTILOCK_TLS_CERT_FILE",
    "MULTILOCK_TLS_KEY_FILE",
    "MULTILOCK_CLIENT_LABEL",
    "MULTILOCK_REQUIRE_ALL",
    "MULTILOCK_MAX_HOLD",
    "MULTILOCK_BESIDE_REDISSON",
];
/// Long enough to occur nowhere by chance.
const PASSWORD: &str = "Zq7xWv9k";

fuzz_target!(|text: &str| {
    // The fuzzer learns it from the comparison, and puts it where no password is.
    if text.contains(PASSWORD) {
        return;
    }
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (shape, user, host) = (line(), line(), line());
    let (before, after) = (line(), line());
    // The text after an `@` counts as the host, so the part before the password has no `@`.
    let password = format!("{}{PASSWORD}{after}", before.replace('@', ""));
    let nodes = urls(shape, user, &password, host);
    let others: Vec<&str> = lines.collect();
    let line = |name: &str| {
        let at = NAMES.iter().position(|known| *known == name)?;
        let line = others.get(at).filter(|line| !line.is_empty())?;
        Some((*line).to_owned())
    };
    let value = |name: &str| match name {
        "MULTILOCK_NODES" => line("MULTILOCK_NODES_FILE").is_none().then(|| nodes.clone()),
        "MULTILOCK_PASSWORD" => line(name).map(|more| format!("{PASSWORD}{more}")),
        name => line(name),
    };
    let said = words_on(value, &nodes);
    assert!(!said.contains(PASSWORD), "{nodes}: {said}");
});

/// Where people put a password, and where they put it by mistake.
fn urls(shape: &str, user: &str, password: &str, host: &str) -> String {
    match shape {
        "r" => format!("redis://{user}:{password}@{host}"),
        "s" => format!("rediss://{user}:{password}@{host}"),
        "n" => format!("{user}:{password}@{host}"),
        "h" => format!("http://{user}:{password}@{host}"),
        "u" => format!("unix://{host}?user={user}&pass={password}"),
        // With a slash it is a path, in which anything may stand.
        "p" => format!("unix://{}:{password}@{host}", user.replace('/', "")),
        "q" => format!("redis://{host}?user={user}&pass={password}"),
        "c" => format!("redis://a,redis://{user}:{password}@{host},redis://b"),
        _ => format!("redis://:{password}@{host}"),
    }
}
