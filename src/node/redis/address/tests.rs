use super::*;
use proptest::prelude::*;

#[test]
fn labels_hold_no_credentials() {
    let label = |url: &str| Address::parse(url).map(|address| address.label.to_string());
    assert_eq!(
        label("redis://u:secret@10.0.0.1:6380/2"),
        Ok("10.0.0.1:6380".into())
    );
    assert_eq!(label("redis://db"), Ok("db:6379".into()));
    assert_eq!(label("redis://[::1]:7000"), Ok("[::1]:7000".into()));
    #[cfg(unix)]
    assert_eq!(
        label("unix:///run/redis@a.sock?pass=s%40ecret"),
        Ok("/run/redis@a.sock".into())
    );
}

#[test]
fn errors_hold_no_credentials() {
    for (url, shown) in [
        ("", "number 2, … (no scheme)"),
        ("10.0.0.1:6379?password=secret", "number 2, … (no scheme)"),
        ("u:secret@db", "number 2, … (no scheme)"),
        ("secret://db", "number 2, … (not such a URL)"),
        (
            "redis://u:secret@db/x",
            "number 2, redis://… (invalid database number)",
        ),
        (
            "redis://u:secret@db/-1",
            "number 2, redis://… (negative database number)",
        ),
        (
            "unix:///s?db=x&pass=secret",
            "number 2, unix://… (invalid database number)",
        ),
        ("redis://:secret", "number 2, redis://… (not such a URL)"),
        (
            "redis://db?db=3&password=secret",
            "number 2, redis://… (a query, which only unix:// may have; database 3 is /3)",
        ),
        (
            "valkey://u:secret@db/3?protocol=resp3",
            "number 2, valkey://… (a query, which only unix:// may have; database 3 is /3)",
        ),
        (
            "unix:///run/s?database=3&pass=secret",
            "number 2, unix://… (a query with a key that is not db, user or pass)",
        ),
        (
            "unix:///run/s?pass=secret&database=3",
            "number 2, unix://… (a query with a key that is not db, user or pass)",
        ),
        // The port would be a number, and the path the remaining password.
        (
            "redis://u:12/secret@db",
            "number 2, redis://… (an @ that is not percent-encoded)",
        ),
        (
            "redis://u:12?secret@db",
            "number 2, redis://… (an @ that is not percent-encoded)",
        ),
    ] {
        let error = NodeUrl::new(url).parse(2).expect_err("not a node URL");
        assert_eq!((error.field, &*error.value), ("node", shown));
        assert!(error.allowed.starts_with("redis://"), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

#[cfg(feature = "rustls")]
#[test]
fn a_query_is_refused_with_tls_as_well() {
    let error = NodeUrl::new("rediss://db?db=3").parse(1).expect_err("a query");
    assert!(error.value.contains("a query"), "{error}");
}

#[cfg(not(feature = "rustls"))]
#[test]
fn tls_without_its_feature_is_refused_by_name() {
    let error = NodeUrl::new("rediss://db").parse(1).expect_err("no TLS here");
    assert!(error.to_string().contains("feature rustls"), "{error}");
}

/// Letters that occur nowhere else in the shown text, unusual characters, and separators of URLs.
const PASSWORD: &str = "[QXZ]{3}[QXZ~!$&'()*+,;=:/?#%@\\\\ \"<>^`{|}äß€0-9]{0,8}[QXZ]{0,4}";

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// URL of a shape; valid ones come first.
fn shaped(shape: usize, user: &str, password: &str) -> String {
    match shape {
        0 => format!("redis://{user}:{}@db:6379/1", encoded(password)),
        1 => format!("unix:///run/s?db=1&user={user}&pass={}", encoded(password)),
        2 => format!("redis://{user}:{password}@db"),
        3 => format!("{user}:{password}@db:6379"),
        4 => format!("unix:///s?db=x&pass={password}"),
        5 => format!("10.0.0.1:6379?password={password}"),
        6 => format!("redis://db:6379?password={password}"),
        7 => format!("redis://db/{password}"),
        // A list is cut at a comma. With an @ before the comma, the text behind it would be a host.
        8 => format!("redis://:{}", password.replace('@', "")),
        9 => format!("redis://{user}:1{password}@db"),
        10 => format!("{password}://{user}@db"),
        11 => format!("redis://{user}:{password}@db/x"),
        12 => format!("rediss://{user}:{password}@db/#insecure"),
        _ => format!("http://{user}:{password}@db"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// No shown text of a URL contains its password, raw or encoded, or a recognisable part of it.
    #[test]
    fn no_password_is_shown(shape in 0_usize..14, user in "[a-z]{0,6}", password in PASSWORD) {
        let url = shaped(shape, &user, &password);
        let node = NodeUrl::new(url.clone());
        let builder = crate::Masters::builder().node(url.clone());
        let parsed = match node.parse(3) {
            Ok(address) => {
                if shape < 2 {
                    prop_assert_eq!(address.info.redis_settings().password(), Some(&*password));
                }
                format!("{address:?} {}", address.label)
            }
            Err(error) => {
                prop_assert!(shape >= 2, "{} {}", url, error);
                format!("{error} {error:?}")
            }
        };
        let shown = format!("{node:?} {builder:?} {parsed}");
        let parts = password.split(|part: char| !part.is_ascii_alphanumeric());
        let telling = |part: &&str| part.len() >= 3 && part.contains(['Q', 'X', 'Z']);
        for secret in parts.filter(telling).chain([&*password, &*encoded(&password)]) {
            prop_assert!(!shown.to_lowercase().contains(&secret.to_lowercase()), "{url}: {shown}");
        }
    }
}
