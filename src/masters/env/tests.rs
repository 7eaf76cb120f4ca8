use super::*;
use crate::masters::credentials::Credentials;
use proptest::prelude::*;
use tokio::time::Instant;

fn from(variables: &[(&str, &str)]) -> Result<MastersBuilder, String> {
    let value = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    MastersBuilder::from_variables_and_files(value, |_| Err(io::ErrorKind::NotFound.into()))
        .map_err(|error| error.to_string())
}

fn labels(builder: &MastersBuilder) -> Vec<String> {
    let addresses = builder.addresses().expect("URLs");
    addresses
        .iter()
        .map(|address| address.label.to_string())
        .collect()
}

#[test]
fn variables_become_options() {
    let builder = from(&[
        ("MULTILOCK_NODES", "redis://a, redis://b,"),
        ("MULTILOCK_LEASE", "10s"),
        ("MULTILOCK_FOR_TESTS", "20s"),
        ("MULTILOCK_MAX_HOLD", "10m"),
        ("MULTILOCK_NODE_TIMEOUT", "20ms"),
        ("MULTILOCK_DRIFT_FACTOR", "0.05"),
        ("MULTILOCK_ALLOW_EVICTION", "true"),
        ("MULTILOCK_ALLOW_UNKNOWN_EVICTION", "true"),
        ("MULTILOCK_ALLOW_UNKNOWN_ROLE", "true"),
        ("MULTILOCK_REQUIRE_ALL", "true"),
        ("MULTILOCK_BESIDE_REDISSON", "1"),
        ("MULTILOCK_STRICT", "yes"),
        ("MULTILOCK_NAMESPACE", "prod"),
        ("MULTILOCK_CLIENT_LABEL", "billing"),
    ])
    .expect("all valid");
    assert_eq!(labels(&builder), ["a:6379", "b:6379"]);
    assert_eq!(builder.config.lease, Some(Duration::from_secs(10)));
    assert_eq!(builder.config.for_tests, Some(Duration::from_secs(20)));
    assert_eq!(builder.config.max_hold, Some(Duration::from_secs(600)));
    assert_eq!(builder.config.node_timeout, Duration::from_millis(20));
    assert!((builder.config.drift_factor - 0.05).abs() < f64::EPSILON);
    let config = builder.config;
    assert!(config.accepted.eviction && config.accepted.unknown_eviction && config.accepted.unknown_role);
    assert!(config.require_all && config.beside_redisson && config.strict);
    assert_eq!(config.namespace, Namespace::new("prod"));
    assert_eq!(config.client_label.as_deref(), Some("billing"));
}

#[test]
fn each_word_of_an_option_is_its_own() {
    let with = |variable, word: &str| {
        let spaced = format!(" {word} ");
        from(&[(NODES, "redis://a"), (variable, &spaced)]).map(|builder| builder.config)
    };
    let rounds = |word| with("MULTILOCK_ROUNDS", word).map(|config| config.rounds);
    assert_eq!(rounds("adaptive"), Ok(Rounds::Adaptive));
    assert_eq!(rounds("all"), Ok(Rounds::All));
    assert_eq!(rounds("thrifty"), Ok(Rounds::Thrifty));
    assert!(rounds("some").is_err());
    let quarantine = |word| with("MULTILOCK_QUARANTINE", word).map(|config| config.quarantine);
    assert_eq!(quarantine("auto"), Ok(Quarantine::Auto));
    assert_eq!(quarantine("off"), Ok(Quarantine::Off));
    assert_eq!(quarantine("40s"), Ok(Quarantine::For(Duration::from_secs(40))));
    for word in ["true", "yes", "on", "1", "false", "no", "off", "0"] {
        let is_on = ["true", "yes", "on", "1"].contains(&word);
        let strict = with("MULTILOCK_STRICT", word).map(|config| config.strict);
        assert_eq!(strict, Ok(is_on), "{word}");
    }
}

proptest! {
    /// A comma in a password cuts the list into pieces that are no URLs, or look like one.
    #[test]
    fn no_password_that_is_cut_is_shown(password in "[QXZ]{3}[QXZ@:/,1]{0,6},[QXZ@:/1]{3,6}") {
        let nodes = format!("redis://u:{password}@db:6379, redis://b");
        let builder = MastersBuilder::from_variables_and_files(
            |name| (name == NODES).then(|| nodes.clone()),
            |_| unreachable!("no file"),
        );
        let builder = builder.expect("a list");
        let error = builder.addresses().expect_err("its second piece has no scheme");
        let shown = format!("{builder:?} {error:?} {error}");
        prop_assert!(error.value.contains("number "), "{error}");
        prop_assert!(!shown.contains(['Q', 'X', 'Z']), "{password}: {shown}");
    }
}

#[test]
fn nodes_come_from_a_file() {
    let read = |text: &'static str| {
        let value = |name: &str| (name == NODES_FILE).then(|| "/etc/masters".to_owned());
        MastersBuilder::from_variables_and_files(value, move |file| {
            assert_eq!(file, Path::new("/etc/masters"));
            Ok(text.to_owned())
        })
    };
    let builder =
        read("# ours\nredis://:a%23b@a # rack 1\r\n\n  redis://b, redis://c\n #redis://d\n").expect("a list");
    assert_eq!(labels(&builder), ["a:6379", "b:6379", "c:6379"]);
    let cut = read("redis://u:1#s3cret@a\n").expect("a list");
    let error = cut.addresses().expect_err("an @ behind a #");
    assert!(error.value.starts_with("number 1, redis://… ("), "{error}");
    let error = read("# none\n\n").expect_err("no URLs").to_string();
    let allowed = "a file with URLs, separated by commas or lines";
    assert_eq!(
        error,
        format!(
            "{NODES_FILE}: /etc/masters is not allowed; allowed: {allowed} (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)"
        )
    );
}

/// Compose passes on a variable that nobody has set, beside the file.
#[test]
fn an_empty_list_beside_a_file_is_not_set() {
    let value = |name: &str| match name {
        NODES => Some(" "),
        NODES_FILE => Some("/etc/masters\n"),
        _ => None,
    };
    let builder = MastersBuilder::from_variables_and_files(value, |file| {
        assert_eq!(file, Path::new("/etc/masters"));
        Ok("redis://a".to_owned())
    });
    assert_eq!(labels(&builder.expect("a list")), ["a:6379"]);
}

#[test]
fn masters_are_labelled_in_order() {
    let builder = from(&[(NODES, "redis://a,redis://b"), (NODE_LABELS, "eu-1, eu-2")]);
    assert_eq!(labels(&builder.expect("all valid")), ["eu-1", "eu-2"]);
}

#[test]
fn a_password_is_for_those_that_have_none() {
    let variables = [
        (NODES, "redis://a,redis://u:own@b,redis://u@c"),
        (USER, "app"),
        (PASSWORD, "s3cret"),
    ];
    let builder = from(&variables).expect("all valid");
    let asked: Vec<bool> = builder
        .nodes
        .iter()
        .map(|node| node.credentials.is_some())
        .collect();
    assert_eq!(asked, [true, false, true]);
    assert!(builder.addresses().is_ok());
    assert!(!format!("{builder:?}").contains("s3cret"), "{builder:?}");
}

#[tokio::test]
async fn a_user_comes_with_its_password() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    std::fs::write(&file, "s3cret").expect("written");
    let of_file = (PASSWORD_FILE, file.to_str().expect("UTF-8"));
    for password in [(PASSWORD, "s3cret"), of_file] {
        let mut builder = from(&[(NODES, "redis://a"), (USER, "app"), password]).expect("all valid");
        let provider = builder.nodes.remove(0).credentials.expect("a login");
        let end = Instant::now() + Duration::from_secs(10);
        let given = provider.ask(end).await.expect("a password");
        assert!(
            given.log_in_the_same(&Credentials::new("app", "s3cret")),
            "{password:?}"
        );
    }
}

#[test]
fn files_of_tls_are_for_masters_that_have_it() {
    let refusal = |variables: &[(&'static str, &'static str)]| {
        let builder = from(variables).expect("to be checked with the masters");
        builder.addresses().expect_err("must be refused").to_string()
    };
    assert_eq!(
        refusal(&[(NODES, "redis://a"), (CA_FILE, "/ca.pem")]),
        format!("{CA_FILE}: /ca.pem is not allowed; allowed: a file if a URL begins with rediss://")
    );
    for (alone, other) in [(CERT_FILE, KEY_FILE), (KEY_FILE, CERT_FILE)] {
        assert_eq!(
            refusal(&[(NODES, "redis://a"), (alone, "/x.pem")]),
            format!("{alone}: /x.pem alone is not allowed; allowed: together with {other}")
        );
    }
}

/// Compose and Helm pass on variables that nobody has set.
#[test]
fn empty_variables_are_not_set() {
    let names = [
        "MULTILOCK_NAMESPACE",
        "MULTILOCK_CLIENT_LABEL",
        "MULTILOCK_LEASE",
        "MULTILOCK_NODE_TIMEOUT",
        "MULTILOCK_STRICT",
        "MULTILOCK_QUARANTINE",
        "MULTILOCK_ROUNDS",
        "MULTILOCK_DRIFT_FACTOR",
        "MULTILOCK_NODE_LABELS",
        "MULTILOCK_USER",
    ];
    let variable = |name: &str| match name {
        NODES => Some(String::from("redis://10.0.0.1")),
        name if names.contains(&name) => Some(String::from(" ")),
        _ => None,
    };
    let builder = MastersBuilder::from_variables(variable).expect("none is set");
    let bare = MastersBuilder::from_variables(|name| variable(name).filter(|text| text != " "));
    assert_eq!(
        format!("{:?}", builder.config),
        format!("{:?}", bare.expect("one node").config)
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_url() {
    let variable =
        |name: &str| (name == NODES).then(|| String::from("\u{feff}# masters\r\nredis://10.0.0.1\r\n"));
    let builder = MastersBuilder::from_variables(variable).expect("one node");
    assert_eq!(builder.nodes.len(), 1);
    let variable = |name: &str| (name == NODES).then(|| String::from("\u{feff}redis://10.0.0.1"));
    assert!(MastersBuilder::from_variables(variable).is_ok());
}

#[test]
fn durations_without_a_unit_are_in_seconds() {
    let lease = |text: &'static str| {
        let variable = move |name: &str| match name {
            NODES => Some(String::from("redis://10.0.0.1")),
            "MULTILOCK_LEASE" => Some(String::from(text)),
            _ => None,
        };
        MastersBuilder::from_variables(variable).map(|builder| builder.config.lease)
    };
    assert_eq!(lease("20"), Ok(Some(Duration::from_secs(20))));
    assert_eq!(lease("1.5"), Ok(Some(Duration::from_millis(1500))));
    assert!(lease("-1").is_err() && lease("1 parsec").is_err());
}

#[test]
fn bad_variables_are_named() {
    let one = (NODES, "redis://a");
    for (variables, expected) in [
        (
            vec![],
            "MULTILOCK_NODES: not set is not allowed; allowed: URLs separated by commas, or MULTILOCK_NODES_FILE (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)",
        ),
        (
            vec![(NODES_FILE, "/none")],
            "MULTILOCK_NODES_FILE: /none (entity not found) is not allowed; allowed: a file with URLs, separated by \
             commas or lines (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)",
        ),
        (
            vec![one, (NODES_FILE, "/none")],
            "MULTILOCK_NODES_FILE: /none is not allowed; allowed: one of the two: MULTILOCK_NODES_FILE or \
             MULTILOCK_NODES (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)",
        ),
        (
            vec![one, ("MULTILOCK_LEASE", "soon")],
            "MULTILOCK_LEASE: \"soon\" is not allowed; allowed: a duration such as 30s or 50ms, or a number of seconds",
        ),
        (
            vec![one, ("MULTILOCK_DRIFT_FACTOR", "1 %")],
            "MULTILOCK_DRIFT_FACTOR: \"1 %\" is not allowed; allowed: a number such as 0.01",
        ),
        (
            vec![one, ("MULTILOCK_REQUIRE_ALL", "maybe")],
            "MULTILOCK_REQUIRE_ALL: \"maybe\" is not allowed; allowed: true or false",
        ),
        (
            vec![one, (NODE_LABELS, "eu-1,eu-2")],
            "MULTILOCK_NODE_LABELS: \"eu-1,eu-2\" is not allowed; allowed: 1 labels separated by commas, one for each \
             master",
        ),
        (
            vec![one, (USER, "app")],
            "MULTILOCK_USER: \"app\" is not allowed; allowed: a user together with MULTILOCK_PASSWORD_FILE or \
             MULTILOCK_PASSWORD",
        ),
        (
            vec![one, (PASSWORD, "")],
            "MULTILOCK_PASSWORD: \"\" is not allowed; allowed: a password",
        ),
        (
            vec![one, (PASSWORD, "s3cret"), (PASSWORD_FILE, "/p")],
            "MULTILOCK_PASSWORD_FILE: /p is not allowed; allowed: one of the two: MULTILOCK_PASSWORD_FILE or \
             MULTILOCK_PASSWORD",
        ),
        (
            vec![one, (CA_FILE, "")],
            "MULTILOCK_TLS_CA_FILE: \"\" is not allowed; allowed: the name of a file",
        ),
    ] {
        assert_eq!(from(&variables).expect_err("must be refused"), expected);
    }
}

#[test]
fn a_value_out_of_range_is_refused_under_the_name_of_its_variable() {
    let long = "x".repeat(1000);
    for (variable, value) in [
        ("MULTILOCK_LEASE", "500"),
        ("MULTILOCK_FOR_TESTS", "1ms"),
        ("MULTILOCK_MAX_HOLD", "1s"),
        ("MULTILOCK_NODE_TIMEOUT", "0"),
        ("MULTILOCK_CONNECT_TIMEOUT", "0"),
        ("MULTILOCK_DRIFT_FACTOR", "2"),
        ("MULTILOCK_QUARANTINE", "1ms"),
        ("MULTILOCK_NAMESPACE", &long),
        ("MULTILOCK_CLIENT_LABEL", &long),
    ] {
        let builder = from(&[("MULTILOCK_NODES", "redis://a"), (variable, value)]).expect("to be read");
        let refused = builder.config.check(1).expect_err("out of range");
        assert_eq!(name_variable(refused, NODES).field, variable);
    }
    // Masters come from a list, or from a file with one.
    for masters in ["redis://a,10.0.0.1:6379", &["redis://a"; 65].join(",")] {
        let builder = from(&[(NODES, masters)]).expect("to be read");
        let refused = builder.addresses().expect_err("no list of masters");
        for variable in [NODES, NODES_FILE] {
            assert_eq!(name_variable(refused.clone(), variable).field, variable);
        }
    }
}
