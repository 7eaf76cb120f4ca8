use super::*;
use crate::Masters;
use crate::masters::builder::MastersBuilder;

const URL: &str = "redis://10.0.0.1";

async fn given() -> Result<Credentials, BoxError> {
    Ok(Credentials::password("s3cret"))
}

/// Labels of the masters, or the reason why they cannot be listed.
fn labels(builder: &MastersBuilder) -> Result<Vec<String>, String> {
    let addresses = builder.addresses().map_err(|error| error.to_string())?;
    Ok(addresses
        .iter()
        .map(|address| address.label.to_string())
        .collect())
}

fn refusal(nodes: impl IntoIterator<Item = Node>) -> String {
    labels(&Masters::builder().nodes(nodes)).expect_err("must be refused")
}

#[test]
fn strings_and_nodes_are_listed_alike() {
    let owned = String::from("redis://b");
    let builder = Masters::builder().node("redis://a").node(owned.clone());
    let builder = builder.nodes([owned.replace('b', "c")]).nodes(["redis://d"]);
    let builder = builder.node(Node::url("redis://e:1").label("eu-1"));
    let expected = ["a:6379", "b:6379", "c:6379", "d:6379", "eu-1"];
    assert_eq!(labels(&builder), Ok(expected.map(str::to_owned).to_vec()));
}

#[test]
fn labels_are_checked() {
    let allowed = "is not allowed; allowed: 1 to 64 letters, digits and -._:/";
    for (label, value) in [
        ("", "\"\""),
        ("a b", "\"a b\""),
        ("a\n", "\"a\\n\""),
        ("ä", "\"ä\""),
        (&"x".repeat(65), "a label of 65 bytes"),
    ] {
        assert_eq!(
            refusal([Node::url(URL).label(label)]),
            format!("label: {value} {allowed}")
        );
    }
    assert!(labels(&Masters::builder().node(Node::url(URL).label("x".repeat(64)))).is_ok());
}

#[test]
fn no_two_masters_are_called_the_same() {
    let twice = "is not allowed; allowed: a label that no other master has, nor as its address";
    let eu = || Node::url(URL).label("eu");
    assert_eq!(
        refusal([eu(), Node::url("redis://b").label("eu")]),
        format!("label: \"eu\" {twice}")
    );
    let other = Node::url("redis://b").label("10.0.0.1:6379");
    assert_eq!(
        refusal([URL.into(), other]),
        format!("label: \"10.0.0.1:6379\" {twice}")
    );
    // The servers' ids show that these are the same.
    assert!(labels(&Masters::builder().nodes([URL, URL])).is_ok());
}

#[test]
fn credentials_stand_in_one_place() {
    let node = |url| Node::url(url).credentials(given);
    assert_eq!(
        refusal([URL.into(), node("redis://u:s3cret@b")]),
        "credentials: number 2, whose URL has a password too is not allowed; allowed: a URL without a password"
    );
    assert!(labels(&Masters::builder().node(node("redis://u@b"))).is_ok());
    let shown = format!("{:?}", Masters::builder().node(node("redis://u:s3cret@b")));
    assert!(
        shown.contains("credentials: Some(…)") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[cfg(feature = "rustls")]
#[test]
fn tls_is_for_addresses_that_have_it() {
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::crypto::ring;

    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let config = Arc::new(config);
    for url in [URL, "unix:///run/redis.sock"] {
        let label = if url == URL {
            "10.0.0.1:6379"
        } else {
            "/run/redis.sock"
        };
        let error = refusal([Node::url(url).tls(Arc::clone(&config))]);
        let allowed = "a URL that begins with rediss://";
        assert_eq!(
            error,
            format!("tls: number 1, {label} is not allowed; allowed: {allowed}")
        );
    }
    assert!(labels(&Masters::builder().node(Node::url("rediss://b").tls(config))).is_ok());
}
